"""Problems: the sizes at which an entry's variants are measured, read from its ``problems``.

Each item is a mapping whose lists multiply, the last one fastest. A key may name several sizes that go together:
``"n,k": [[6144, 4096], [4096, 14336]]`` are two layers. A problem that occurs twice is measured once.

Problems do not affect what is compiled: they are not part of a variant's key.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from types import MappingProxyType

from precast.build.errors import ManifestError
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.patterns import NAME

LIMIT = 10_000
"""The largest number of problems of one entry."""

_SIZES = 32
_LARGEST = 2**63 - 1

Problem = Mapping[str, int]
Column = tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]
"""Names, and the rows of sizes that they have together."""


def parse_problems(node: Node) -> tuple[Problem, ...]:
    """Every problem of a list of grids, each once, in the order written.

    >>> from precast.build.plan.yaml.reader import read_yaml
    >>> [dict(p) for p in parse_problems(read_yaml(b'[{m: [1, 16], "n,k": [[6144, 4096]]}]', "m.yaml"))]
    [{'m': 1, 'n': 6144, 'k': 4096}, {'m': 16, 'n': 6144, 'k': 4096}]
    """
    problems: dict[tuple[tuple[str, int], ...], Problem] = {}
    for item in yaml_fields.items(node):
        columns = [_column(name, value) for name, value in yaml_fields.mapping(item).items()]
        _check(item, columns)
        names = [name for group, _ in columns for name in group]
        for row in itertools.product(*(sizes for _, sizes in columns)):
            problem = dict(zip(names, itertools.chain.from_iterable(row), strict=True))
            problems.setdefault(tuple(sorted(problem.items())), MappingProxyType(problem))
        if len(problems) > LIMIT:
            raise ManifestError(f"more than {LIMIT} problems: list fewer sizes", item.at)
    if not problems:
        raise ManifestError("no problem is listed: add one such as {m: [1, 16], n: 4096}", node.at)
    return tuple(problems.values())


def _check(item: Node, columns: list[Column]) -> None:
    names = [name for group, _ in columns for name in group]
    if not names or len(names) > _SIZES:
        raise ManifestError(f"a problem has 1 to {_SIZES} sizes: write them like {{m: [1, 16], n: 4096}}", item.at)
    for name in names:
        if names.count(name) > 1:
            raise ManifestError(f"the size {name!r} is given twice: keep one", item.at)
    if math.prod(len(sizes) for _, sizes in columns) > LIMIT:
        raise ManifestError(f"more than {LIMIT} problems: list fewer sizes", item.at)


def _column(key: str, node: Node) -> Column:
    names = tuple(name.strip() for name in key.split(","))
    for name in names:
        if not NAME.admits(name):
            raise ManifestError(
                f'{key[:80]!r} is not the name of a size: write m, or "n,k" for sizes that go together', node.named_at
            )
    if len(names) == 1:
        values = yaml_fields.items(node) if isinstance(node.value, tuple) else (node,)
        rows: tuple[tuple[int, ...], ...] = tuple((_size(value),) for value in values)
    else:
        rows = tuple(_together(names, value) for value in yaml_fields.items(node))
    if not rows:
        raise ManifestError(f"{key[:80]}: the list is empty: give at least one size", node.at)
    return names, rows


def _together(names: tuple[str, ...], node: Node) -> tuple[int, ...]:
    if not isinstance(node.value, tuple) or len(node.value) != len(names):
        raise ManifestError(f"expected {len(names)} sizes, for {', '.join(names)}: write them in a list", node.at)
    return tuple(_size(value) for value in node.value)


def _size(node: Node) -> int:
    value = node.value
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ManifestError(f"{str(node.plain())[:80]!r} is not a size: write a whole number such as 4096", node.at)
    return value
