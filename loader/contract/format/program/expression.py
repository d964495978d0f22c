"""Expressions of a host program: 64-bit numbers, computed from the arguments of a call.

An expression is a number, a leaf, or a function of two expressions: ``("ceil_div", "x.shape[0]", 2048)``. A leaf is
``x.shape[0]``, ``x.strides[0]``, ``x.data`` (the address), ``x.span`` (the number of elements from the first to the
last), the name of an integer argument, or ``x.bits`` (the bits of a floating-point argument in its type). Sums and
products that do not fit are cut to 64 bits, as in host code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

from precast.loader.contract.format.signature import Signature
from precast.loader.errors import FormatError, LaunchError

Expression = Union[int, str, "tuple[Any, ...]"]
LEAF = re.compile(r"[A-Za-z_]\w{0,63}(?:\.(?:(?:shape|strides)\[[0-9]\]|data|span|bits))?", re.ASCII)
DEPTH = 12
_ONES, _NAN = (1 << 64) - 1, 0x7FC00000


def wrapped(number: int, bits: int = 64) -> int:
    """A number cut to this many bits, the highest of which is its sign.

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
    """The bits of the product of two float32, given by their bits. The product in float64 is exact, so it is rounded
    once. There is one NaN."""
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
    """The value of an expression for these leaves.

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
    """The leaves of an expression."""
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


def is_integer(dtype: str) -> bool:
    """Whether a scalar of this type is a leaf by its name; others are leaves by their bits.

    >>> is_integer("uint8"), is_integer("bool"), is_integer("float32")
    (True, True, False)
    """
    return dtype.startswith(("int", "uint")) or dtype == "bool"


def leaves_of(signature: Signature) -> Iterator[str]:
    """Every leaf that an expression may have for a kernel."""
    for argument in signature.passed:
        if argument.kind == "tensor":
            yield f"{argument.name}.data"
            yield f"{argument.name}.span"
            for axis in range(len(argument.shape)):
                yield f"{argument.name}.shape[{axis}]"
                yield f"{argument.name}.strides[{axis}]"
        elif argument.kind == "scalar":
            yield argument.name if is_integer(argument.dtype) else f"{argument.name}.bits"


def to_json(expression: Expression) -> Any:
    return [expression[0], *map(to_json, expression[1:])] if isinstance(expression, tuple) else expression


def parse_expression(value: object, depth: int = 0) -> Expression:
    """Read an expression out of JSON. Raises a FormatError if it is not one.

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
    raise FormatError(
        f"expected a number, a leaf such as 'x.shape[0]', or a function ({', '.join(FUNCTIONS)}) and two expressions"
    )
