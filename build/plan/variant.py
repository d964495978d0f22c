"""Variants: the calls of kernel functions that a build compiles."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from precast.build.errors import Location
from precast.loader.contract.format.config import Config, canonical, to_json
from precast.loader.contract.format.target import Target
from precast.loader.machine.facts import Answer
from precast.loader.terminal_text import on_one_line

_LONGEST_VALUE, _LONGEST = 32, 160  # characters of a label: of a value, and of all values


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One call of a kernel function for one target: the unit that is compiled.

    ``config`` is the full config, each value in canonical form. ``rank`` is the author's order among variants that
    differ in tuned keys only: lower is preferred. A function that compiles several objects names them in ``parts``.
    """

    op: str
    source: str
    config: Config
    target: Target
    location: Location
    tuned: tuple[str, ...] = ()
    emit: tuple[str, ...] = ("object",)
    env: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    profile: str = ""  # the GPU, if the target is built for several
    assumed: Mapping[str, Answer] = field(default_factory=dict)  # facts of the GPU that ``env`` uses
    speed_only: tuple[str, ...] = ()  # facts that may differ where the kernel runs: it only gets slower
    inputs: tuple[str, ...] = ()  # the names of declared inputs
    imports: tuple[str, ...] = ()  # modules that a worker imports once for all variants of the kernel
    rank: int = 0
    registered: bool = False  # the manifest has ``kernel:``, so that the name of the op is enough to build it

    @property
    def identity(self) -> str:
        """The identity of the variant for its users, as canonical JSON: its op, its config, its target."""
        return identity(self.op, self)

    @property
    def identity_on_gpu(self) -> str:
        """The identity of the variant in a build for several GPUs: its identity, and the GPU."""
        return f"{self.identity} {self.profile}" if self.profile else self.identity

    @property
    def produces(self) -> tuple[str, ...]:
        """The ops that its artifacts are stored under: its own, or one for each part (``op.part``)."""
        return tuple(f"{self.op}.{part}" for part in self.parts) or (self.op,)

    @property
    def attached(self) -> bool:
        """Whether its function belongs to an attached library, and may compile several objects for one key."""
        return "@" in self.source

    def __str__(self) -> str:
        """A label that is unique to the variant: a shortened one ends with a digest of its identity."""
        gpu = f" on {self.profile}" if self.profile else ""
        return f"{label(self.op, self.config, self.identity)} for {self.target}{gpu}"

    def to_json(self) -> dict[str, Any]:
        """The variant as ``precast plan --json`` prints it."""
        return {
            "op": self.op,
            "source": self.source,
            "config": {name: to_json(value) for name, value in self.config.items()},
            "target": str(self.target),
            "tuned": list(self.tuned),
            "emit": list(self.emit),
            "env": dict(self.env),
            **({"inputs": list(self.inputs)} if self.inputs else {}),
            "parts": list(self.parts),
            "rank": self.rank,
            "location": str(self.location),
            **({"profile": self.profile} if self.profile else {}),
        }


def identity(op: str, variant: Variant) -> str:
    """The identity of an artifact of a variant that is stored under an op, as canonical JSON."""
    config = {name: to_json(value) for name, value in variant.config.items()}
    return canonical([op, config, str(variant.target)]).decode()


def label(op: str, config: Config, identity: str) -> str:
    """An op with a config, sorted by its keys, as all commands print it; of a long config a part, and a digest.

    >>> label("scale", {"threads": 128, "dtype": "float32"}, "")
    'scale(dtype=float32, threads=128)'
    """
    whole = [on_one_line(f"{name}={_show(to_json(value))}") for name, value in sorted(config.items())]
    cut = [_cut(text) for text in whole]
    shown = [text for number, text in enumerate(cut) if sum(map(len, cut[: number + 1])) <= _LONGEST]
    if shown != whole:
        left_out = [f"{len(whole) - len(shown)} more"] if len(whole) > len(shown) else []
        shown += [*left_out, f"#{hashlib.sha256(identity.encode()).hexdigest()[:8]}"]
    return f"{op}({', '.join(shown)})"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _show(value: object) -> str:
    return value if isinstance(value, str) else str(value)
