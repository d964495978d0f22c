"""Tuning: measured times of variants that differ in tuned keys only. ``estimate`` chooses by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import compress
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import canonical
from precast.loader.contract.format.patterns import NAME, SHA256, Pattern
from precast.loader.contract.format.target import Capability, parse_capability
from precast.loader.contract.format.tiling import Tiling
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import FormatError

_GPU = Pattern(r"[ -~]{1,128}", lambda t: 0 < len(t) <= 128 and t.isascii() and t.isprintable())
LONGEST = 1e12  # microseconds: eleven days
_SIZE = 2**63 - 1
_VARIANTS = 10_000
MOST_ROWS = 40_000  # of all tables of an op
_REMEMBERED = 1000
_NUMBERS = {float, int, type(None)}


class Measured(Immutable, kw_only=True):
    """One problem on one GPU: the microseconds that a launch took, by the key of the artifact.

    ``tilings`` has the tilings of those artifacts whose author declares one.
    """

    gpu: str
    capability: Capability
    problem: Mapping[str, int]
    times: Mapping[str, float]
    tilings: Mapping[str, Tiling] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, bytes]:  # words: allow
        """The identity of a measurement: a table holds it at most once, and is sorted by it."""
        return str(self.capability), self.gpu, canonical(dict(self.problem))

    def to_json(self) -> dict[str, Any]:
        tilings = {key: tiling.to_json() for key, tiling in self.tilings.items()}
        return {
            "capability": str(self.capability),
            "gpu": self.gpu,
            "problem": dict(self.problem),
            "times": dict(self.times),
            **({"tilings": tilings} if tilings else {}),
        }

    @classmethod
    def parse(cls, value: object) -> Measured:
        data = fields.known(fields.as_object(value), ("gpu", "capability", "problem", "times", "tilings"))
        times = fields.table(data, "times", _time, most=_VARIANTS)
        for key in times:
            if not SHA256.admits(key):
                raise FormatError("not an artifact's key", f"times.{key[:80]}")
        gpu, capability = _machine(data)
        problem = fields.parsed(data, "problem", parse_problem)
        tilings = fields.table(data, "tilings", Tiling.parse, most=_VARIANTS, default={})
        for key, tiling in tilings.items():
            if key not in times:
                raise FormatError("this artifact has no time", f"tilings.{key[:80]}")
            _check_axes(tiling, problem, f"tilings.{key[:80]}")
        return cls(gpu=gpu, capability=capability, problem=problem, times=times, tilings=tilings)


def parse_problem(value: object) -> dict[str, int]:
    """A problem: sizes by name."""
    problem = {n: fields.count({n: v}, n, most=_SIZE) for n, v in fields.as_object(value).items()}
    if not problem or len(problem) > 32 or not all(NAME.admits(n) for n in problem):
        raise FormatError("expected a problem: sizes by name, at least 1 and at most 32")
    return problem


def _time(value: object) -> float:
    if type(value) not in (int, float) or not 0 < value <= LONGEST:  # type: ignore[operator]
        raise FormatError("expected a positive number of microseconds")
    return float(value)  # type: ignore[arg-type]


def to_tables(measured: Iterable[Measured]) -> list[dict[str, Any]]:
    """The tables of an op's file: one for the rows of one GPU with the same axes, unless tilings of a variant differ.

    ``rows`` hold numbers alone: the sizes in the order of ``axes``, and the times in the order of ``variants``; null
    for a variant without a time.
    """
    groups: dict[tuple[str, str, tuple[str, ...]], list[_Columns]] = {}
    for row in sorted(measured, key=lambda m: m.place):
        columns = groups.setdefault((str(row.capability), row.gpu, tuple(sorted(row.problem))), [])
        fitting = next((table for table in columns if table.fits(row)), None)
        if fitting is None:
            fitting = _Columns()
            columns.append(fitting)
        fitting.add(row)
    return [
        {"capability": capability, "gpu": gpu, "axes": list(axes), **columns.to_json(axes)}
        for (capability, gpu, axes), tables in sorted(groups.items())
        for columns in tables
    ]


class _Columns:
    """The rows of a table, and the tiling of each of its variants, or None."""

    def __init__(self) -> None:
        self.rows: list[Measured] = []
        self.tilings: dict[str, Tiling | None] = {}

    def fits(self, row: Measured) -> bool:
        """Whether no variant of a row has another tiling here."""
        return all(self.tilings.get(key, row.tilings.get(key)) == row.tilings.get(key) for key in row.times)

    def add(self, row: Measured) -> None:
        self.rows.append(row)
        self.tilings.update((key, row.tilings.get(key)) for key in row.times)

    def to_json(self, axes: Iterable[str]) -> dict[str, Any]:
        keys = sorted(self.tilings)
        rows = [
            {"problem": [row.problem[axis] for axis in axes], "times": [row.times.get(key) for key in keys]}
            for row in self.rows
        ]
        return {"rows": rows, "variants": [_variant(key, self.tilings[key]) for key in keys]}


def _variant(key: str, tiling: Tiling | None) -> dict[str, Any]:
    return {"key": key, "tiling": tiling.to_json()} if tiling else {"key": key}


def parse_tables(tables: Iterable[object], artifacts: Collection[str]) -> tuple[Measured, ...]:
    """The measurements of an op, whose ``artifacts`` have these keys. A table names no other artifact, and a problem
    occurs once for one GPU."""
    measurements: dict[tuple[str, str, bytes], Measured] = {}
    keys = {key for key in artifacts if isinstance(key, str)}
    for position, table in enumerate(tables):
        try:
            for row in _rows(table, MOST_ROWS - len(measurements)):
                if (identity := row.place) in measurements:
                    raise FormatError("this problem occurs twice for this GPU")
                if not row.times.keys() <= keys:
                    raise FormatError("no artifact has this key", f"times.{min(row.times.keys() - keys)}")
                measurements[identity] = row
        except FormatError as error:
            raise error.within(position).within("tuning") from None
    return tuple(measurements[identity] for identity in sorted(measurements))


def _rows(table: object, most: int) -> list[Measured]:
    data = fields.known(fields.as_object(table), ("axes", "capability", "gpu", "rows", "variants"))
    gpu, capability = _machine(data)
    axes = fields.items(data, "axes", fields.text, most=32)
    variants = fields.items(data, "variants", _parse_variant, most=_VARIANTS)
    keys, example = [key for key, _ in variants], dict.fromkeys(axes, 1)
    parse_problem(example)
    if len(example) != len(axes) or not keys or len(set(keys)) != len(keys):
        raise FormatError("expected at least one axis and one variant, each once")
    tilings = {key: tiling for key, tiling in variants if tiling is not None}
    for position, (_, tiling) in enumerate(variants):
        if tiling is not None:
            _check_axes(tiling, example, f"variants[{position}].tiling")

    def row(value: object) -> Measured:
        data = fields.known(fields.as_object(value), ("problem", "times"))
        sizes = fields.items(data, "problem", lambda v: fields.count({"": v}, "", most=_SIZE), most=len(axes))
        times = _times(data, len(keys))
        if len(sizes) != len(axes) or len(times) != len(keys):
            raise FormatError("expected a size for each axis and a time for each variant")
        problem = dict(zip(axes, sizes, strict=True))
        measured = dict(zip(compress(keys, times), filter(None, times), strict=True))  # no time is 0
        if not measured:
            raise FormatError("no variant has a time: leave the problem out", "times")
        cut = tilings if len(measured) == len(keys) else {k: tilings[k] for k in measured if k in tilings}
        return Measured(gpu=gpu, capability=capability, problem=problem, times=measured, tilings=cut)

    return list(fields.items(data, "rows", row, most=most))


def _times(data: fields.Object, count: int) -> Sequence[float | None]:
    """The times of a row. A table has tens of thousands, so right ones are recognised together."""
    times = data.get("times")
    if isinstance(times, list) and len(times) == count and _NUMBERS.issuperset(kinds := set(map(type, times))):
        numbers = [time for time in times if time is not None]
        if numbers and min(numbers) > 0 and max(numbers) <= LONGEST:
            return times if int not in kinds else [time if time is None else float(time) for time in times]
    return fields.items(data, "times", lambda time: None if time is None else _time(time), most=count)


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


def _machine(data: fields.Object) -> tuple[str, Capability]:
    gpu = fields.matching(data, "gpu", _GPU, "the name of a GPU")
    return gpu, fields.parsed(data, "capability", lambda v: parse_capability(fields.text(v)))


def _check_axes(tiling: Tiling, problem: Mapping[str, int], path: str) -> None:
    if not tiling.cuts(problem):
        raise FormatError("the tile has an axis that the problem does not have", path)


def joined(tables: Iterable[Iterable[Measured]], keys: Collection[str]) -> tuple[Measured, ...]:
    """Several tables as one, for the artifacts with these keys. If two have a time of the same artifact, problem and
    GPU, the lesser stays, since a disturbance only adds time; so the order of the tables does not matter."""
    rows: dict[tuple[str, str, bytes], Measured] = {}
    for row in (row for table in tables for row in table):
        old = rows[row.place].times if row.place in rows else {}
        new = {k: min(t, old.get(k, t)) for k, t in row.times.items() if k in keys}
        if old or new:
            tilings = {**(rows[row.place].tilings if row.place in rows else {}), **row.tilings}
            times = {**old, **new}
            rows[row.place] = replace(row, times=times, tilings={k: t for k, t in tilings.items() if k in times})
    return tuple(rows[identity] for identity in sorted(rows))
