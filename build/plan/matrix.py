"""The matrix: how the lists of an entry become rows, one full config each.

- A scalar is a list of one. The lists of ``config`` and ``tuned`` multiply, in the order written, the last one fastest.
- For a key whose type is itself a list, a list as deep as the type is one value, and a list one deeper multiplies:
  with ``tile: list[int]``, ``[128, 64]`` is one tile, ``[[128, 64], [64, 64]]`` two.
- ``exclude`` drops the rows that match every key of an item; a key may list several values. An item that drops nothing
  is an error, and so is an entry of which nothing is left.
- Each item of ``include`` is one more row. A key it leaves out takes the matrix's value where that has just one, else
  the function's default. It comes after the matrix, and ``exclude`` does not touch it. An entry that has ``include``
  and neither ``config`` nor ``tuned`` has those rows alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from precast.build.errors import Location, ManifestError
from precast.build.plan.describer import Description
from precast.build.plan.entry import Entry
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.config import Key, Value, canonical, suggest, to_json
from precast.loader.contract.format.patterns import OP_NAME
from precast.loader.errors import ConfigError

Table = Mapping[str, Key]
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One full config, in the order of the op's keys, and the location that lists it."""

    config: dict[str, Value]
    at: Location


@dataclass(frozen=True, slots=True)
class Matrix:
    """The checked lists of one entry. The rows can be counted before the lists are multiplied."""

    entry: Entry
    op: str
    keys: tuple[Key, ...]
    axes: dict[str, tuple[Value, ...]]
    include: tuple[Row, ...]
    exclude: tuple[tuple[Location, dict[str, frozenset[bytes]]], ...]

    @property
    def count(self) -> int:
        """The largest possible number of rows."""
        alone = not self.axes and bool(self.include)
        return len(self.include) + (0 if alone else math.prod(map(len, self.axes.values())))

    def rows(self) -> Iterator[Row]:
        """Every row: those of the matrix that are not excluded, then those of ``include``."""
        if self.axes or not self.include:
            yield from self._kept()
        yield from self.include

    def _kept(self) -> Iterator[Row]:
        kept, dropped = 0, [0] * len(self.exclude)
        base = _defaults(self.keys, self.axes, self.op, self.entry.location)
        for values in itertools.product(*self.axes.values()):
            config = {**base, **dict(zip(self.axes, values, strict=True))}
            matched = [_matches(config, pattern) for _, pattern in self.exclude]
            dropped = [n + m for n, m in zip(dropped, matched, strict=True)]
            if not any(matched):
                yield Row(config, self.entry.location)
            kept += not any(matched)
        for count, (at, _) in zip(dropped, self.exclude, strict=True):
            if not count:
                raise ManifestError("this item of 'exclude' matches no row: correct its values, or remove it", at)
        if not kept and not self.include:
            raise ManifestError(
                f"'exclude' drops every row of {self.op!r}, so that nothing is built: narrow it, or remove the entry",
                self.exclude[0][0],
            )


def matrix_of(entry: Entry, described: Description) -> Matrix:
    """Check an entry's values against the keys of its op."""
    if entry.parts and described.parts and len(entry.parts) != len(described.parts):
        raise ManifestError(
            f"{described.op!r} has {len(described.parts)} parts, {', '.join(described.parts)}, and 'parts' names "
            f"{len(entry.parts)}: name each, or leave 'parts' out",
            entry.location,
        )
    for part in entry.parts or described.parts:
        if not OP_NAME.admits(f"{described.op}.{part}"):
            raise ManifestError(f"'{described.op}.{part}' has more than four words: shorten the op", entry.location)
    keys = _keys(entry, described)
    table = {k.name: k for k in keys}
    axes = {
        name: _axis(_known(table, described.op, name, node), node)
        for name, node in (*entry.config.items(), *entry.tuned.items())
    }
    include = tuple(_included(row, table, axes, described.op) for row in entry.include)
    exclude = tuple((row.at, _pattern(row, table, described.op)) for row in entry.exclude)
    return Matrix(entry, described.op, keys, axes, include, exclude)


def _keys(entry: Entry, described: Description) -> tuple[Key, ...]:
    """The op's keys. A declaration names the tuned ones itself; for a plain function the manifest does."""
    table = {k.name: k for k in described.keys}
    for name, node in entry.tuned.items():
        key = _known(table, described.op, name, node)
        if described.declared and not key.tuned:
            raise ManifestError(
                f"{name!r} is not a tuned key of {described.op!r}: move it to 'config', or declare it Tuned[..]",
                node.named_at,
            )
    for name, node in entry.config.items():
        if name in table and table[name].tuned:
            raise ManifestError(f"{name!r} is a tuned key of {described.op!r}: move it to 'tuned'", node.named_at)
    return tuple(replace(k, tuned=k.tuned or k.name in entry.tuned) for k in described.keys)


def _known(table: Table, op: str, name: str, node: Node) -> Key:
    if name not in table:
        raise ManifestError(
            f"op {op!r} has no config key {name!r}{suggest(name, table) or ': remove it'}", node.named_at
        )
    return table[name]


def _axis(key: Key, node: Node) -> tuple[Value, ...]:
    """The values of a key, by the rule for lists."""
    if not (isinstance(node.value, tuple) and _depth(node) > key.type.count("list[")):
        return (_value(key, node),)
    values: dict[bytes, Value] = {}
    for item in node.value:
        value = _value(key, item)
        text = canonical(to_json(value))
        if text in values:
            raise ManifestError(f"{key.name}: {to_json(value)!r} is listed twice: keep one", item.at)
        values[text] = value
    if not values:
        raise ManifestError(f"{key.name}: an empty list makes no variants: give at least one value", node.at)
    return tuple(values.values())


def _value(key: Key, node: Node) -> Value:
    try:
        return key.normal(node.plain())
    except ConfigError as error:
        text = str(error)
        hint = "" if "; " in text or f"expected {key.type}," in text else f"; it takes {key.type}"
        raise ManifestError(f"config key {text}{hint}", node.at) from None


def _depth(node: Node, seen: int = 0) -> int:
    if not isinstance(node.value, tuple) or seen > _DEEPEST:
        return 0
    return 1 + max((_depth(item, seen + 1) for item in node.value), default=0)


def _included(row: Node, table: Table, axes: Mapping[str, tuple[Value, ...]], op: str) -> Row:
    assert isinstance(row.value, dict)  # the manifest's reader checks this
    given = {name: _value(_known(table, op, name, node), node) for name, node in row.value.items()}
    single = {name: values for name, values in axes.items() if len(values) == 1 or name in given}
    several = [name for name in axes if name not in single and not table[name].has_default]
    if several:
        raise ManifestError(f"the matrix has several values for {several[0]!r}: add a value to this row", row.at)
    base = _defaults(table.values(), {**single, **dict.fromkeys(given, ())}, op, row.at)
    return Row({**base, **{name: values[0] for name, values in single.items() if values}, **given}, row.at)


def _defaults(keys: Iterable[Key], given: Mapping[str, Sequence[Value]], op: str, at: Location) -> dict[str, Value]:
    """A config of the defaults, in the order of the keys; a key without a default must be given."""
    result: dict[str, Value] = {}
    for key in keys:
        if key.name not in given and not key.has_default:
            raise ManifestError(f"op {op!r} needs the config key {key.name!r} ({key.type}): add it", at)
        result[key.name] = key.default
    return result


def _pattern(row: Node, table: Table, op: str) -> dict[str, frozenset[bytes]]:
    assert isinstance(row.value, dict)
    return {
        name: frozenset(canonical(to_json(v)) for v in _axis(_known(table, op, name, node), node))
        for name, node in row.value.items()
    }


def _matches(config: Mapping[str, Value], pattern: Mapping[str, frozenset[bytes]]) -> bool:
    return all(canonical(to_json(config[name])) in values for name, values in pattern.items())
