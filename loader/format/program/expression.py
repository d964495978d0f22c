"""Expressions of a host program: numbers of 64 bits, made of what a call passes.

An expression is a number, a leaf, or a function of two expressions: ``("ceil_div", "x.shape[0]", 2048)``. A leaf is
``x.shape[0]``, ``x.strides[0]``, ``x.data`` (the address), ``x.span`` (how many elements lie from the first to the
last), an integer argument by its name, or ``x.bits`` (a real number's bits in its type). Sums and products that do not
fit are cut to 64 bits, as host code cuts them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from precast.loader.errors import FormatError, LaunchError
from precast.loader.format.signature import Signature

Expression = Union[int, str, "tuple[Any, ...]"]
LEAF = re.compile(r"[A-Za-z_]\w{0,63}(?:\.(?:(?:shape|strides)\[[0-9]\]|data|span|bits))?", re.ASCII)
DEPTH = 12
_ONES, _NAN = (1 << 64) - 1, 0x7FC00000


def wrapped(number: int, bits: int = 64) -> int:
    """A number cut to so many bits, the highest of which is its sign.

    >>> wrapped(2**31, 32), wrapped(-1)
    (-2147483648, -1)
    """
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _divided(a: int, b: int) -> int:
    if b <= 0:
        raise LaunchError("the host program divides by zero, or by less: give other sizes")
    return a // b


def _float_product(a: int, b: int) -> int:
    """The bits of the product of two float32, by their bits. A product in float64 is exact, so it rounds once; what
    is no number is always the same one."""
    left, right = (struct.unpack("<f", struct.pack("<I", n & 0xFFFFFFFF))[0] for n in (a, b))
    product = left * right
    if product != product:
        return _NAN
    try:
        data = struct.pack("<f", product)
    except OverflowError:
        data = struct.pack("<f", float("inf") if product > 0 else float("-inf"))
    return int.from_bytes(data, "little")


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor_div": _divided,
    "ceil_div": lambda a, b: -_divided(-a, b),
    "mod": lambda a, b: a - _divided(a, b) * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "shift": lambda a, b: (a & _ONES) >> (b & 63),
    "at_least": lambda a, b: int(a >= b),
    "low": lambda a, b: wrapped(a, b) if 1 <= b <= 64 else a,
    "float_mul": _float_product,
}


def evaluate(expression: Expression, leaves: Mapping[str, int]) -> int:
    """The number that an expression is for these leaves.

    >>> evaluate(("max", ("ceil_div", "n", 8), 1), {"n": 0})
    1
    >>> evaluate(("low", ("mul", "n", "n"), 32), {"n": 1 << 16})
    0
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return leaves[expression]
    function, left, right = expression
    return wrapped(FUNCTIONS[function](evaluate(left, leaves), evaluate(right, leaves)))


def leaves_in(expression: Expression) -> Iterator[str]:
    """The leaves that an expression has."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, tuple):
        for part in expression[1:]:
            yield from leaves_in(part)


def changes(leaf: str) -> bool:
    """Whether a leaf may differ between calls of the same sizes.

    >>> changes("x.data"), changes("x.span")
    (True, False)
    """
    return leaf.endswith((".data", ".bits"))


def leaves_of(signature: Signature) -> Iterator[str]:
    """Every leaf that an expression may have for a kernel."""
    for argument in signature.passed:
        if argument.kind == "tensor":
            yield f"{argument.name}.data"
            yield f"{argument.name}.span"
            for place in range(len(argument.shape)):
                yield f"{argument.name}.shape[{place}]"
                yield f"{argument.name}.strides[{place}]"
        elif argument.kind == "scalar":
            whole = argument.dtype.startswith(("int", "uint")) or argument.dtype == "bool"
            yield argument.name if whole else f"{argument.name}.bits"


def to_json(expression: Expression) -> Any:
    return [expression[0], *map(to_json, expression[1:])] if isinstance(expression, tuple) else expression


def parse_expression(value: object, depth: int = 0) -> Expression:
    """An expression out of JSON; anything else is a FormatError.

    >>> parse_expression(["mul", "x.shape[0]", 2])
    ('mul', 'x.shape[0]', 2)
    """
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str) and LEAF.fullmatch(value):
        return value
    function = value[0] if isinstance(value, (list, tuple)) and len(value) == 3 else None
    if isinstance(value, (list, tuple)) and isinstance(function, str) and function in FUNCTIONS and depth < DEPTH:
        return (function, parse_expression(value[1], depth + 1), parse_expression(value[2], depth + 1))
    raise FormatError(f"expected a number, a leaf such as 'x.shape[0]', or one of {', '.join(FUNCTIONS)} with two")
