"""Fits: the expression that explains a number of every recorded call by what was passed in that call."""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from precast.loader.contract.format.program.expression import Expression, evaluate

Leaves = Mapping[str, int]
_MOST_FACTORS = 3
_FIELDS = 32
_MORE_BITS, _SHIFTS = 4, 48
_UNSIGNED = (1 << 63) - 1
_VECTORS = (1, 2, 4, 8, 16)  # elements that may be counted together, where the last of them are too few


@dataclass(frozen=True, slots=True)
class Known:
    """What a kernel's numbers may be made of: the leaves that tell something, one for each size, and the spans."""

    leaves: tuple[str, ...]
    sizes: tuple[str, ...]
    spans: tuple[str, ...]
    real: tuple[str, ...]


def constant(values: Sequence[int]) -> Expression | None:
    """The number that all are."""
    return values[0] if values and all(v == values[0] for v in values) else None


def word(values: Sequence[int], calls: Sequence[Leaves], terms: Known, bits: int) -> Expression | None:
    """What a word of a parameter is: a constant, a leaf, or one shifted, scaled or less one; bit by bit if need be."""
    mask = (1 << bits) - 1
    if (expression := constant(values)) is not None:
        return expression
    for fits in (_as_leaf, _as_real_product, _as_shifted, _as_scaled):
        if (expression := fits(values, calls, terms, mask)) is not None:
            return expression
    return _as_fields(values, calls, terms, bits) if bits <= _FIELDS else None  # wider ones are rather two words


def flag(values: Sequence[int], calls: Sequence[Leaves], terms: Known) -> Expression | None:
    """What decides between 0 and 1: whether a size, a product of sizes or a span is at least some number."""
    if (expression := constant(values)) is not None:
        return expression
    products = [_product_of(g) for number in range(1, 5) for g in itertools.combinations(terms.sizes, number)]
    # A span is compared without its sign: where a size is 0, it counts as large.
    for atom in (*products, *terms.spans, *(("and", span, _UNSIGNED) for span in terms.spans)):
        numbers = [evaluate(atom, call) for call in calls]
        low = max((n for n, v in zip(numbers, values, strict=True) if not v), default=0)
        high = min((n for n, v in zip(numbers, values, strict=True) if v), default=0)
        if low < high:
            return ("at_least", atom, _roundest(low + 1, high))
    return None


def count(values: Sequence[int], calls: Sequence[Leaves], terms: Known) -> Expression | None:
    """What a number of blocks is: a product of sizes, each divided and rounded up, perhaps with a most."""
    if (expression := constant(values)) is not None:
        return expression
    if (expression := next(_products(values, calls, terms), None)) is not None:
        return expression
    most = max(values)
    if values.count(most) * 20 > len(values):
        kept = [(v, c) for v, c in zip(values, calls, strict=True) if v != most]
        for below in _products([v for v, _ in kept], [c for _, c in kept], terms):
            if explains(capped := ("min", below, most), values, calls):
                return capped
    return None


def explains(expression: Expression, values: Sequence[int], calls: Sequence[Leaves], mask: int = -1) -> bool:
    """Whether an expression gives every value."""
    return all(evaluate(expression, call) & mask == value & mask for value, call in zip(values, calls, strict=True))


def _as_leaf(values: Sequence[int], calls: Sequence[Leaves], terms: Known, mask: int) -> Expression | None:
    return next((leaf for leaf in terms.leaves if explains(leaf, values, calls, mask)), None)


def _as_shifted(values: Sequence[int], calls: Sequence[Leaves], terms: Known, mask: int) -> Expression | None:
    """A leaf, or one less, or 1 at least, times or divided by a power of two."""
    for leaf in terms.leaves:
        for base in (leaf, ("sub", leaf, 1), ("max", leaf, 1)):
            numbers = [evaluate(base, call) for call in calls]
            for shift in range(-16, 9):
                if all(
                    (n << shift if shift >= 0 else n >> -shift) & mask == v
                    for n, v in zip(numbers, values, strict=True)
                ):
                    if not shift:
                        return base
                    return ("mul", base, 1 << shift) if shift > 0 else ("shift", base, -shift)
    return None


def _as_scaled(values: Sequence[int], calls: Sequence[Leaves], terms: Known, mask: int) -> Expression | None:
    """A leaf times a number, plus a number."""
    for leaf in terms.leaves:
        pairs = sorted({(call[leaf], value) for value, call in zip(values, calls, strict=True)})
        (x, v), (y, w) = pairs[0], pairs[-1]
        if x == y or (w - v) % (y - x):
            continue
        factor = (w - v) // (y - x)
        expression: Expression = ("mul", leaf, factor)
        if factor and (rest := v - factor * x):
            expression = ("add", expression, rest)
        if factor and explains(expression, values, calls, mask):
            return expression
    return None


def _as_real_product(values: Sequence[int], calls: Sequence[Leaves], terms: Known, mask: int) -> Expression | None:
    """A float32 times a constant, in float32."""
    if mask != 0xFFFFFFFF:
        return None
    for leaf in terms.real:
        pairs = [(_real(call[leaf]), _real(value)) for value, call in zip(values, calls, strict=True)]
        ratios = [b / a for a, b in pairs if a and math.isfinite(a) and math.isfinite(b)]
        if not ratios or not math.isfinite(ratios[0]) or abs(ratios[0]) > 1e30:
            continue
        middle = int.from_bytes(struct.pack("<f", sorted(ratios)[len(ratios) // 2]), "little")
        for near in range(-2, 3):
            if explains(expression := ("float_mul", leaf, middle + near), values, calls, mask):
                return expression
    return None


def _as_fields(values: Sequence[int], calls: Sequence[Leaves], terms: Known, bits: int) -> Expression | None:
    """A sum of fields of bits: those that never change, flags, and shifted leaves."""
    changing = functools.reduce(lambda a, b: a | b, (v ^ values[0] for v in values))
    expression: Expression = values[0] & ~changing
    runs = list(_runs(changing))
    for (low, high), (end, _) in itertools.zip_longest(runs, runs[1:], fillvalue=(bits, bits)):
        widest = min(end - low, high - low + _MORE_BITS)
        part = _field(values, calls, terms, low, range(widest, high - low - 1, -1))
        if part is None:
            return None
        shifted = ("mul", part, 1 << low) if low else part
        expression = ("add", expression, shifted) if expression else shifted
    return expression


def _field(
    values: Sequence[int], calls: Sequence[Leaves], terms: Known, low: int, widths: Sequence[int]
) -> Expression | None:
    """What the bits from ``low`` on are. Those above a run, which never changed, may belong to it."""
    if widths[-1] == 1 and (expression := flag([v >> low & 1 for v in values], calls, terms)) is not None:
        return expression
    for width, leaf in itertools.product(widths, terms.leaves):
        mask = (1 << width) - 1
        field = [v >> low & mask for v in values]
        for shift in range(_SHIFTS):
            if all(call[leaf] >> shift & mask == v for call, v in zip(calls, field, strict=True)):
                return ("and", ("shift", leaf, shift) if shift else leaf, mask)
    return None


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """Where the ones of a mask begin and end, run by run.

    >>> list(_runs(0b1100_0001))
    [(0, 1), (6, 8)]
    """
    low = 0
    while mask >> low:
        if mask >> low & 1:
            high = low
            while mask >> high & 1:
                high += 1
            yield low, high
            low = high
        else:
            low += 1


def _products(values: Sequence[int], calls: Sequence[Leaves], terms: Known) -> Iterator[Expression]:
    """Every product that gives the values, the simplest first: others may explain more calls."""
    for number in range(1, _MOST_FACTORS + 1):
        for chosen in itertools.combinations(terms.sizes, number):
            for groups in _partitions(chosen):
                for vector in _VECTORS if len(groups) == 1 else (1,):
                    product = _of_groups(values, calls, groups, vector)
                    if product is not None:
                        yield product


def _of_groups(
    values: Sequence[int], calls: Sequence[Leaves], groups: Sequence[tuple[str, ...]], vector: int
) -> Expression | None:
    """A product with one factor for each group, which is a product of sizes divided and rounded up; perhaps at least 1.

    Each factor shows where all others are as small as they are drawn: there they count as one tile.
    """
    numbers = [[math.prod(call[leaf] for leaf in group) // vector for call in calls] for group in groups]
    least = [min((n for n in row if n > 0), default=0) for row in numbers]
    factors, times = [], set[int]()
    for position, row in enumerate(numbers):
        shown = [
            (x, value)
            for at, (x, value) in enumerate(zip(row, values, strict=True))
            if x > 0 and all(numbers[o][at] == least[o] for o in range(len(groups)) if o != position)
        ]
        factor = _steps(shown)
        if factor is None:
            return None
        factors.append(factor[0])
        times.add(factor[1])
    if len(times) != 1:
        return None
    (each_counts,) = times
    parts = [_tiles(_product_of(g), f, vector) for g, f in zip(groups, factors, strict=True)]
    for clamped in itertools.product((False, True), repeat=len(parts)):
        each = [("max", p, 1) if c else p for p, c in zip(parts, clamped, strict=True)]
        product = _product_of([*each, each_counts] if each_counts != 1 else each)
        for whole in (product, ("max", product, 1)):
            if explains(whole, values, calls):
                return whole
    return None


def _product_of(factors: Sequence[Expression]) -> Expression:
    return functools.reduce(lambda a, b: ("mul", a, b), factors)


def _tiles(atom: Expression, size: int, vector: int) -> Expression:
    vectors = ("floor_div", atom, vector) if vector != 1 else atom
    return ("ceil_div", vectors, size) if size != 1 else vectors


def _steps(pairs: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The size of a tile and the number that each counts for, such that ``value = ceil(x / size) * number``.

    >>> _steps([(1, 2), (100, 2), (129, 4), (1280, 20), (128_000, 2000)])
    (128, 2)
    """
    number = min((value for _, value in pairs), default=0)
    if number <= 0 or len({x for x, _ in pairs}) < 2:
        return None
    least, most = 1, 1 << 62
    for x, value in pairs:
        tiles, rest = divmod(value, number)
        if rest:
            return None
        least = max(least, -(-x // tiles))
        most = min(most, (x - 1) // (tiles - 1) if tiles > 1 else most)
    return (_roundest(least, most), number) if least <= most < 1 << 62 else None


def _partitions(items: Sequence[str]) -> Iterable[list[tuple[str, ...]]]:
    """The ways to put items into groups, from one for each to one for all."""
    if not items:
        return [[]]
    first, rest = items[0], items[1:]
    partitions = []
    for part in _partitions(rest):
        partitions.append([(first,), *part])
        partitions += [[*part[:i], (first, *part[i]), *part[i + 1 :]] for i in range(len(part))]
    return sorted(partitions, key=len, reverse=True)


def _roundest(least: int, most: int) -> int:
    """The number in a range that has the most zero bits at its end.

    >>> _roundest(65001, 66000), _roundest(7, 7), _roundest(1, 3)
    (65536, 7, 2)
    """
    shift = 0
    while (-(-least >> shift + 1)) << shift + 1 <= most:
        shift += 1
    return (-(-least >> shift)) << shift


def _real(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])
