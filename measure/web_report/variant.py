"""A variant as the page shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from precast.build.cache.build_assumptions import gpus_of
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import to_json
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.resolve.evidence import CHECK, EMULATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One artifact. ``seconds`` is the time of its compilation, None if the store does not have it.

    ``get`` and ``call`` are the two lines of a program that gets and calls it. ``share`` is the part of the roofline
    that it reached at its best problem, ``wins`` the number of ``problems`` at which it was the fastest. ``change`` is
    "added", "changed" or empty, compared with the other cache.
    """

    op: str
    key: str
    config: Mapping[str, Any]
    target: str
    kind: str
    host: str
    stored: int
    size: int
    registers: int
    shared: int
    spilled: int
    kernels: int
    assumes: str
    verified: str
    wrong: str
    get: str
    emulated: str = ""
    call: str = ""
    signature: str = ""
    seconds: float | None = None
    wins: int = 0
    problems: int = 0
    share: float | None = None
    change: str = ""
    changes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the page's script reads it; empty values are left out."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["config"] = {name: to_json(value) for name, value in self.config.items()}
        return {name: value for name, value in data.items() if value not in ("", (), None)}


def facts(op: str, artifact: Artifact, index: OpReader) -> dict[str, Any]:
    """What the index says of an artifact, as fields of a Variant."""
    used = artifact.resources
    needs = [f"{name} {value}" for name, value in sorted(artifact.assumes.needs.items())] if artifact.assumes else []
    checks = [entry for entry in artifact.evidence if entry.get("check") == CHECK]
    emulations = [entry for entry in artifact.evidence if entry.get("check") == EMULATION]
    wrong = [str(text) for entry in (*checks, *emulations) for text in _texts(entry.get("failed"))]
    return {
        "op": op,
        "key": artifact.key,
        "config": artifact.config,
        "target": str(artifact.target),
        "kind": artifact.kind,
        "host": f"{artifact.host.arch}, glibc {artifact.host.glibc}" if artifact.host else "",
        "stored": artifact.blob.stored,
        "size": artifact.blob.size,
        "registers": max((kernel.registers for kernel in used), default=0),
        "shared": max((kernel.shared for kernel in used), default=0),
        "spilled": max((kernel.local + kernel.stack for kernel in used), default=0),
        "kernels": len(used),
        "assumes": ", ".join([*gpus_of(artifact), *needs]) if artifact.assumes else "",
        "verified": "; ".join(sorted({_where(entry) for entry in checks})),
        "emulated": "; ".join(sorted({str(entry.get("date", ""))[:10] or "yes" for entry in emulations})),
        "wrong": "; ".join(wrong),
        "get": get_line(op, artifact, index),
        "call": f"kernel({', '.join(argument.name for argument in artifact.signature.passed)})",
        "signature": str(artifact.signature),
    }


def get_line(op: str, artifact: Artifact, index: OpReader) -> str:
    """The expression of a program that gets exactly this artifact's variant, without default values."""
    keys = {key.name: key for key in index.keys}
    config = {
        name: value
        for name, value in artifact.config.items()
        if name not in keys or keys[name].tuned or not keys[name].has_default or keys[name].default != value
    }
    given = f", {python_text(config)}" if config else ""
    return f"loader.get({op!r}{given})"


def _where(entry: Mapping[str, Any]) -> str:
    return f"{entry.get('gpu', 'a GPU')}, {str(entry.get('date', ''))[:10]}"


def _texts(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else ()


def python_text(value: object) -> str:
    """A config, or a value, as Python code.

    >>> python_text({"dtype": "bfloat16", "tile": (64, None)})
    "{'dtype': 'bfloat16', 'tile': [64, None]}"
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {python_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(python_text, value)) + "]"
    return repr(value)
