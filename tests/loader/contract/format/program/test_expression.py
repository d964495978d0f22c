"""Expressions: evaluated as native code does, in 64 bits, and read only where they are sound."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.format.program.expression import (
    DEPTH,
    FUNCTIONS,
    evaluate,
    leaves_in,
    leaves_of,
    parse_expression,
    to_json,
    wrapped,
)
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.errors import FormatError, LaunchError

numbers = st.integers(-(2**63), 2**63 - 1)


def bits(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")


@pytest.mark.parametrize(
    ("function", "left", "right", "result"),
    [
        ("add", 7, 2, 9), ("sub", 7, 9, -2), ("mul", 7, 2, 14), ("floor_div", 7, 2, 3), ("floor_div", -7, 2, -4),
        ("ceil_div", 7, 2, 4), ("ceil_div", -7, 2, -3), ("mod", 7, 4, 3), ("mod", -1, 4, 3), ("min", 7, 2, 2),
        ("max", 7, 2, 7), ("and", 7, 10, 2), ("shift", 9, 1, 4), ("shift", -1, 60, 15), ("at_least", 2, 2, 1),
        ("at_least", 1, 2, 0), ("low", 2**31, 32, -(2**31)), ("low", 5, 64, 5), ("low", 5, 0, 5),
        ("float_mul", bits(1.5), bits(2.0), bits(3.0)), ("float_mul", bits(3e38), bits(-10), bits(float("-inf"))),
        ("float_mul", bits(float("inf")), bits(1.0), bits(float("inf"))),
        ("float_mul", bits(float("inf")), bits(-0.0), 0x7FC00000), ("float_mul", 0xFFC12345, bits(1.0), 0x7FC00000),
    ],
)  # fmt: skip
def test_each_function(function: str, left: int, right: int, result: int) -> None:
    assert evaluate((function, "n", "x.shape[0]"), {"n": left, "x.shape[0]": right}) == result


@given(numbers, numbers, st.sampled_from(sorted(FUNCTIONS)))
def test_every_result_has_64_bits(left: int, right: int, function: str) -> None:
    try:
        found = evaluate((function, left, right), {})
    except LaunchError as error:
        assert "give other sizes" in str(error) and right <= 0
    else:
        assert found == wrapped(found)


def nested(depth: int) -> Any:
    return ["add", nested(depth - 1), 1] if depth else "x.span"


def test_it_is_read_back() -> None:
    made = parse_expression(nested(DEPTH))
    assert parse_expression(to_json(made)) == made
    assert list(leaves_in(made)) == ["x.span"]


@pytest.mark.parametrize(
    "wrong",
    [True, 1.0, "x.shape[0", "x.size", ["pow", 2, 3], ["add", 1], 2**63, nested(DEPTH + 1), None, [[], 1, 1], {}],
)
def test_what_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(FormatError, match="expected a number, a leaf such as"):
        parse_expression(wrong)


def test_the_leaves_of_a_signature() -> None:
    signature = Signature(
        arguments=(
            Argument(name="x", kind="tensor", dtype="float32", shape=("n",), strides=(1,)),
            Argument(name="count", kind="scalar", dtype="int32"),
            Argument(name="on", kind="scalar", dtype="bool"),
            Argument(name="factor", kind="scalar", dtype="float32"),
            Argument(name="bias", kind="none"),
            Argument(name="stream", kind="env_stream"),
        )
    )
    assert list(leaves_of(signature)) == [
        "x.data", "x.span", "x.shape[0]", "x.strides[0]", "count", "on", "factor.bits",
    ]  # fmt: skip
