"""Tables: the measurements of an op as its file holds them, each row parsed when it is needed.

A table may have thousands of rows of a hundred times, and a choice needs the twenty nearest. So a row is a text, such
as ``4096,300: 12.5,,7.25``: the sizes of a problem in the order of the table's axes, and the times in microseconds in
the order of its variants, with nothing for one that was not measured there. The variants of a table differ in tuned
keys only, so a choice needs one table of its GPU.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.patterns import SHA256
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import (
    LARGEST,
    LONGEST,
    VARIANTS,
    Measured,
    check_axes,
    parse_problem,
    read_machine,
)
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import FormatError

MOST_ROWS = 40_000  # of all tables of an op
BETWEEN = ": "
REPEATED = "this problem occurs twice for this GPU"
_SIZE = "(?:0|[1-9][0-9]{0,18})"
_TIME = "(?:(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?)?"  # as in JSON, or nothing
_SIZES, _TIMES = (re.compile(f"{number}(?:,{number})*") for number in (_SIZE, _TIME))
_REMEMBERED = 1000


class Table(Immutable, kw_only=True):
    """Measurements of some variants on one GPU, at problems with the same ``axes``.

    ``tilings`` has those of the ``keys`` whose author declares one. ``rows`` are texts. ``position`` is that among the
    tables of its file, which errors name.

    >>> data = {"gpu": "NVIDIA H200", "capability": "9.0", "axes": ["m"], "variants": [{"key": "a" * 64}]}
    >>> table = Table.parse({**data, "rows": ["300: 2.5"]})
    >>> table.problems(), table.measured(0).times == {"a" * 64: 2.5}
    ([(300,)], True)
    """

    gpu: str
    capability: Capability
    axes: tuple[str, ...]
    keys: tuple[str, ...]
    tilings: Mapping[str, Tiling]
    rows: tuple[str, ...]
    position: int = 0

    def to_json(self) -> dict[str, Any]:
        tilings = {key: {"tiling": tiling.to_json()} for key, tiling in self.tilings.items()}
        return {
            "axes": list(self.axes),
            "capability": str(self.capability),
            "gpu": self.gpu,
            "rows": list(self.rows),
            "variants": [{"key": key, **tilings.get(key, {})} for key in self.keys],
        }

    @classmethod
    def parse(cls, value: object, most: int = MOST_ROWS, position: int = 0) -> Table:
        """A table of at most so many rows, which are not checked yet."""
        data = fields.known(fields.as_object(value), ("axes", "capability", "gpu", "rows", "variants"))
        gpu, capability = read_machine(data)
        axes = fields.items(data, "axes", fields.text, most=32)
        variants = fields.items(data, "variants", _parse_variant, most=VARIANTS)
        keys, example = tuple(key for key, _ in variants), dict.fromkeys(axes, 1)
        parse_problem(example)
        if len(example) != len(axes) or not keys or len(set(keys)) != len(keys):
            raise FormatError("expected at least one axis and one variant, each once")
        tilings = {key: tiling for key, tiling in variants if tiling is not None}
        for at, (_, tiling) in enumerate(variants):
            if tiling is not None:
                check_axes(tiling, example, f"variants[{at}].tiling")
        rows = fields.items(data, "rows", fields.text, most=most)
        return cls(gpu=gpu, capability=capability, axes=axes, keys=keys, tilings=tilings, rows=rows, position=position)

    def problems(self) -> list[tuple[int, ...]]:
        """The sizes of each row, in the order of the axes. Raises a FormatError if they are not valid."""
        texts = [row.partition(BETWEEN)[0].split(",") for row in self.rows]
        problems = self._quickly(texts)
        if problems is None:
            problems = [self._sizes(position) for position in range(len(self.rows))]
        if len(set(problems)) != len(problems):
            seen: set[tuple[int, ...]] = set()
            for position, sizes in enumerate(problems):
                if sizes in seen:
                    raise self.wrong(position, REPEATED)
                seen.add(sizes)
        return problems

    def measured(self, position: int) -> Measured:
        """A row. Raises a FormatError if it is not valid."""
        problem = dict(zip(self.axes, self._sizes(position), strict=True))
        text = self.rows[position].partition(BETWEEN)[2]
        words = text.split(",")
        if len(words) != len(self.keys):
            raise self.wrong(position, "expected a size for each axis and a time for each variant")
        times = _times(dict(zip(self.keys, words, strict=True))) if _TIMES.fullmatch(text) else None
        if times is None:
            raise self.wrong(position, "expected a positive number of microseconds for each time")
        if not times:
            raise self.wrong(position, "no variant has a time: leave the problem out")
        tilings = {key: self.tilings[key] for key in times if key in self.tilings}
        return Measured(gpu=self.gpu, capability=self.capability, problem=problem, times=times, tilings=tilings)

    def _quickly(self, texts: list[list[str]]) -> list[tuple[int, ...]] | None:
        """The sizes of all rows, which are thousands, looked at together; None if one may be wrong."""
        count, flat = len(self.axes), list(chain.from_iterable(texts))
        if any(len(sizes) != count for sizes in texts) or not _SIZES.fullmatch(",".join(flat)):
            return None
        sizes = list(map(int, flat))
        return list(zip(*[iter(sizes)] * count, strict=True)) if max(sizes) <= LARGEST else None

    def _sizes(self, position: int) -> tuple[int, ...]:
        texts = self.rows[position].partition(BETWEEN)[0].split(",")
        if len(texts) != len(self.axes):
            raise self.wrong(position, "expected a size for each axis and a time for each variant")
        if not all(map(_SIZES.fullmatch, texts)):
            raise self.wrong(position, "expected a whole number for each size")
        sizes = tuple(map(int, texts))
        if max(sizes) > LARGEST:
            raise self.wrong(position, f"{max(sizes)} is not between 0 and {LARGEST}")
        return sizes

    def wrong(self, position: int, what: str) -> FormatError:
        """The error of a row."""
        return FormatError(what).within(position).within("rows").within(self.position).within("tuning")


def _times(words: Mapping[str, str]) -> dict[str, float] | None:
    """Times by the keys of their variants; None if one is not valid."""
    try:
        times = {key: float(word) for key, word in words.items() if word}
    except ValueError:
        return None
    return times if all(0 < time <= LONGEST for time in times.values()) else None


def read_tables(tables: Iterable[object], artifacts: Collection[str]) -> tuple[Table, ...]:
    """The tables of an op, whose ``artifacts`` have these keys: a table names no other artifact."""
    keys = {key for key in artifacts if isinstance(key, str)}
    read: list[Table] = []
    rows = 0
    for position, value in enumerate(tables):
        try:
            table = Table.parse(value, MOST_ROWS - rows, position)
            if not keys.issuperset(table.keys):
                raise FormatError("no artifact has this key", f"variants.{min(set(table.keys) - keys)}")
            rows += len(table.rows)
            read.append(table)
        except FormatError as error:
            raise error.within(position).within("tuning") from None
    return tuple(read)


def measurements(tables: Iterable[Table]) -> tuple[Measured, ...]:
    """All rows of some tables, checked; those of one problem on one GPU are one, and have each variant once."""
    rows: dict[tuple[str, str, bytes], Measured] = {}
    for table in tables:
        for position in range(len(table.problems())):
            row = table.measured(position)
            other = rows.setdefault(row.place, row)
            if other is not row:
                if not other.times.keys().isdisjoint(row.times):
                    raise table.wrong(position, REPEATED)
                times, tilings = {**other.times, **row.times}, {**other.tilings, **row.tilings}
                rows[row.place] = replace(row, times=times, tilings=tilings)
    return tuple(rows[identity] for identity in sorted(rows))


def _parse_variant(value: object) -> tuple[str, Tiling | None]:
    data = fields.known(fields.as_object(value), ("key", "tiling"))
    key = fields.matching(data, "key", SHA256, "an artifact's key")
    return key, fields.parsed(data, "tiling", _tiling, None)


_tilings: dict[str, Tiling] = {}


def _tiling(value: object) -> Tiling:
    """A tiling. Most variants of an op have one of a few, each of which is parsed once."""
    try:
        text = repr(value)
    except RecursionError:
        raise FormatError("nests too deep") from None
    tiling = _tilings.get(text)
    if tiling is None:
        tiling = Tiling.parse(value)
        if len(_tilings) < _REMEMBERED:
            _tilings[text] = tiling
    return tiling
