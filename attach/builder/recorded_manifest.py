"""A recording as a manifest: an entry for each key, a line for each value, so that it can be reviewed and edited."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.attach.library import library_named
from precast.attach.recordings.recording import Recorded, merged
from precast.build.errors import ManifestError
from precast.build.plan.entry import Entry
from precast.build.plan.manifest import Manifest, read_manifest
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.config import value_text

_CALL = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedManifest:
    """A manifest that ``precast record`` wrote, possibly edited: its lists multiply."""

    name: str
    targets: tuple[str, ...]
    recorded: tuple[Recorded, ...]


def manifest_of(recorded: Iterable[Recorded], *, name: str, targets: Iterable[str]) -> str:
    """The text of a manifest that builds every recorded key.

    >>> from precast.attach.recordings.recording import Recorded
    >>> one = Recorded(library="quack", compile="quack.softmax:Softmax.compile", config={"N": 4096})
    >>> print(manifest_of([one], name="mine", targets=["sm_90a"]))
    version: 1
    name: mine
    targets: [sm_90a]
    kernels:
      - compile: "quack.softmax:Softmax.compile@quack"
        op: attach.quack.softmax_softmax_compile_a52ea753
        config:
          N: 4096
    <BLANKLINE>
    """
    lines = ["version: 1", f"name: {name}", f"targets: {value_text(list(targets))}", "kernels:"]
    for kernel in merged(
        sorted(recorded, key=lambda kernel: kernel.text)
    ):  # of two calls with one key, the first in order
        lines += [
            f"  - compile: {value_text(f'{kernel.compile}@{kernel.library}')}",
            f"    op: {library_named(kernel.library).op(kernel.compile)}",
        ]
        for name, values in zip(("config", "tuned"), entry_values(kernel), strict=True):
            if values or name == "config":
                lines += [f"    {name}:", *(f"      {key}: {value_text(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def read_recorded_manifest(path: Path) -> RecordedManifest:
    """Read a manifest back; raises ManifestError at an entry that a recording cannot hold."""
    manifest = read_manifest(path)
    return RecordedManifest(
        name=manifest.name, targets=tuple(map(str, manifest.targets)), recorded=recorded_keys(manifest)
    )


def recorded_keys(manifest: Manifest) -> tuple[Recorded, ...]:
    """The keys of a manifest all of whose entries are recorded; raises ManifestError at another entry."""
    return merged(kernel for entry in manifest.entries for kernel in _recorded(entry, manifest.targets))


def _recorded(entry: Entry, targets: tuple[Any, ...]) -> Iterator[Recorded]:
    function, _, library = (entry.source or "").partition("@")
    edited = entry.include or entry.exclude or entry.env or entry.parts or entry.skip_unsupported or entry.program
    if not library or edited or entry.targets != targets or entry.op not in (None, library_named(library).op(function)):
        raise ManifestError(
            "'precast record' did not write this entry, so it cannot add to this file: record into another file, and "
            "build both",
            entry.location,
        )
    calls = [dict(call) for call in _choices(entry.tuned[_CALL])] if _CALL in entry.tuned else [None]
    axes = [[(name, form) for form in _choices(node)] for name, node in entry.config.items()]
    for values, call in itertools.product(itertools.product(*axes), calls):
        yield Recorded(library=library, compile=function, config=dict(values), call=call)


def _choices(node: Node) -> list[Any]:
    """The values of a key: a list has several."""
    plain = node.plain()
    return plain if isinstance(plain, list) else [plain]


def entry_values(recorded: Recorded) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ``config`` and the ``tuned`` of the entry that builds a key, in the order of their names."""
    call = None if recorded.call is None else [[argument, form] for argument, form in sorted(recorded.call.items())]
    return _as_written(recorded.config), {} if call is None else _as_written({_CALL: call})


def _as_written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as an entry has them. A manifest reads a list as several values, so a value that is a list is nested."""
    return {name: [form] if isinstance(form, list) else form for name, form in sorted(values.items())}
