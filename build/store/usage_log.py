"""The usage log: for each build, how many variants its store had, and the seconds of compiling that this saved.

A line a build, appended in one write to the file of its month, so that builds at the same time do not disturb each
other. The log decides nothing: a line that is damaged is skipped, and where none can be written, none is.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from precast.build.plan.variant import Variant
from precast.build.store.costs import Costs
from precast.build.store.store import Store
from precast.loader.contract.format import fields
from precast.loader.errors import FormatError
from precast.loader.regular_file import read_regular

_KIND = "usage"
_LIMIT = 256 << 20
_MOST_OPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Variants that a store had (``hits``) and lacked (``misses``), with the seconds saved and spent on compiling.

    >>> Usage(hits=1, saved=2.0) + Usage(misses=3, spent=0.5)
    Usage(hits=1, misses=3, saved=2.0, spent=0.5)
    """

    hits: int = 0
    misses: int = 0
    saved: float = 0.0
    spent: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            hits=self.hits + other.hits,
            misses=self.misses + other.misses,
            saved=round(self.saved + other.saved, 3),
            spent=round(self.spent + other.spent, 3),
        )

    @classmethod
    def parse(cls, value: object) -> Usage:
        """Read what ``to_json`` gave; raises FormatError."""
        data = fields.as_object(value)
        hits, misses = (fields.count(data, name, most=1 << 40) for name in ("hits", "misses"))
        saved, spent = (fields.get(data, name, float) for name in ("saved", "spent"))
        if not (0 <= saved < 1e12 and 0 <= spent < 1e12):
            raise FormatError("seconds that no build takes")
        return cls(hits=hits, misses=misses, saved=saved, spent=spent)

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON."""
        return {"hits": self.hits, "misses": self.misses, "saved": self.saved, "spent": self.spent}


@dataclass(frozen=True, slots=True)
class Totals:
    """The usage of a store by all builds in its log, for each op."""

    builds: int
    ops: dict[str, Usage]

    @property
    def all(self) -> Usage:
        """The sum of all ops."""
        return sum(self.ops.values(), Usage())


def usage_by_op(reused: Iterable[tuple[Variant, float]], built: Iterable[tuple[Variant, float]]) -> dict[str, Usage]:
    """The usage of one build: its variants, each with the seconds that compiling it took, now or earlier."""
    ops: dict[str, Usage] = {}
    for variant, seconds in reused:
        ops[variant.op] = ops.get(variant.op, Usage()) + Usage(hits=1, saved=seconds)
    for variant, seconds in built:
        ops[variant.op] = ops.get(variant.op, Usage()) + Usage(misses=1, spent=seconds)
    return ops


def note_build(store: Store, reused: Iterable[Variant], built: Iterable[tuple[Variant, float]]) -> None:
    """Log one build: the variants that the store had, and those that it lacked with the seconds that each took.

    The seconds that a variant of the store saves are those of its last compilation.
    """
    present = tuple(reused)
    seconds = Costs(store.notes).of(present)
    note_usage(store, usage_by_op([(v, seconds.get(v.identity, 0.0)) for v in present], built))


def note_usage(store: Store, ops: dict[str, Usage]) -> None:
    """Append the line of one build."""
    if not ops:
        return
    line = json.dumps({op: usage.to_json() for op, usage in sorted(ops.items())}) + "\n"
    path = store.notes.path / _KIND / f"{time.strftime('%Y-%m', time.gmtime())}.jsonl"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


def totals(store: Store) -> Totals:
    """The usage of a store, as far as its log can be read."""
    builds = 0
    ops: dict[str, Usage] = {}
    for line in _lines(store):
        try:
            data = fields.as_object(fields.read_json(line, limit=_LIMIT))
            read = {op: Usage.parse(value) for op, value in data.items()}
        except FormatError:
            continue
        if len(ops.keys() | read.keys()) > _MOST_OPS:
            continue
        builds += 1
        for op, usage in read.items():
            ops[op] = ops.get(op, Usage()) + usage
    return Totals(builds, ops)


def _lines(store: Store) -> Iterator[bytes]:
    for path in sorted((store.notes.path / _KIND).glob("*.jsonl")):
        with contextlib.suppress(OSError):
            yield from read_regular(path, _LIMIT).splitlines()
