"""A host program with every kind of argument, calls of it, and random expressions: for whatever runs host programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

from precast.loader.contract.format.program.expression import FUNCTIONS, Expression
from precast.loader.contract.format.program.host_program import HostProgram, Parameter, Step, Word
from precast.loader.contract.format.signature import Argument, Signature, Symbol
from precast.loader.errors import LaunchError
from tests.helpers.gpu.signature_check import View, bind, leaves_of_call, within

if TYPE_CHECKING:
    import torch

X = Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=("s", 1), alignment=16, device="cpu")
SIGNATURE = Signature(
    arguments=(
        X,
        Argument(name="bias", kind="none"),
        Argument(name="y", kind="tensor", dtype="float8_e4m3fn", shape=("n",), strides=("t",), device="cpu"),
        Argument(name="count", kind="scalar", dtype="int32", divisibility=2),
        Argument(name="on", kind="scalar", dtype="bool"),
        Argument(name="factor", kind="scalar", dtype="float32"),
        Argument(name="wide", kind="scalar", dtype="float64"),
        Argument(name="stream", kind="env_stream"),
    ),
    symbols={
        "n": Symbol(dtype="int32"), "s": Symbol(dtype="int64", divisibility=4), "t": Symbol(dtype="int64"),
    },
)  # fmt: skip
LEAVES = (
    "x.data", "x.span", "x.shape[0]", "x.shape[1]", "x.strides[0]", "y.data", "y.strides[0]", "count", "on",
    "factor.bits", "wide.bits",
)  # fmt: skip
DECIDING = tuple(leaf for leaf in LEAVES if not leaf.endswith((".data", ".bits")))
BLOCKS = ("max", ("ceil_div", "x.shape[0]", 8), 1)
STEP = Step(
    kernel="first",
    grid=(BLOCKS, 2, 1),
    block=(128, 1, 1),
    cluster=(1, 2, 1),
    shared=("mul", 50_000, "count"),
    overlap=True,
    parameters=(
        Parameter(size=20, words=(Word(0, 8, "x.data"), Word(8, 4, "x.shape[0]"), Word(12, 8, "x.strides[0]"))),
        Parameter(size=1, words=()),
        Parameter(size=4, words=(Word(0, 4, ("float_mul", "factor.bits", 0x40000000)),)),
    ),
)
PROGRAM = HostProgram(
    steps=(STEP, replace(STEP, kernel="second", cluster=(1, 1, 1), overlap=False, when=("at_least", "count", 4))),
    limit=4000,
)


def tensors(n: int, padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch = pytest.importorskip("torch")
    x = torch.zeros(max(n, 1), 4 + padding)[:n, :4]
    return x, torch.zeros(max(n, 1), dtype=torch.float8_e4m3fn)[:n]


def call(n: int = 17, count: int = 2, padding: int = 0) -> list[Any]:
    x, y = tensors(n, padding)
    return [x, None, y, count, True, 1.5, -2.0]


def view(value: Any) -> Any:
    if not hasattr(value, "data_ptr"):
        return value
    dtype = str(value.dtype).removeprefix("torch.")
    shape, strides = tuple(value.shape), tuple(value.stride())
    return View(data=value.data_ptr(), shape=shape, strides=strides, dtype=dtype, device=(1, 0))


def expected(program: HostProgram, args: list[Any]) -> Any:
    """What Python makes of a call of ``op``: its launches, or its error."""
    values = [view(value) for value in args]
    try:
        bound = bind("op", SIGNATURE, values)
        within(program.limit, SIGNATURE, values)
        return program.launches(leaves_of_call(SIGNATURE, bound))
    except (TypeError, ValueError, LaunchError) as error:
        return type(error), str(error)


def expressions(leaves: tuple[str, ...]) -> st.SearchStrategy[Expression]:
    numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300)
    plain = st.one_of(numbers, st.sampled_from(leaves))
    return st.recursive(plain, lambda part: st.tuples(st.sampled_from(sorted(FUNCTIONS)), part, part), max_leaves=6)


_words = st.builds(Word, st.sampled_from([0, 8, 16]), st.sampled_from([1, 2, 4, 8]), expressions(LEAVES))
_parameters = st.builds(
    lambda n, w: Parameter(size=n, words=w), st.integers(24, 33), st.lists(_words, max_size=4).map(tuple)
)


def _program(found: list[Parameter], grid: Expression, shared: Expression, when: Expression) -> HostProgram:
    step = replace(STEP, grid=(("max", ("min", grid, 9), 1), 1, 1), parameters=tuple(found), when=when)
    return HostProgram(steps=(step, replace(step, kernel="second", shared=shared)))


PROGRAMS = st.builds(
    _program, st.lists(_parameters, max_size=4), expressions(DECIDING), expressions(DECIDING), expressions(DECIDING)
)
"""Programs with expressions of all functions and leaves, most of which no kernel would have."""

CALLS = st.builds(
    lambda n, count, padding, factor: [*call(n, count, padding)[:5], factor, -2.0],
    st.sampled_from([0, 1, 17, 40]),
    st.sampled_from([-4, 0, 2]),
    st.sampled_from([0, 4]),
    st.floats(width=32),
)


def wrong_calls() -> list[list[Any]]:
    """Calls that ``PROGRAM`` refuses, each for one reason."""
    torch = pytest.importorskip("torch")
    x, y = tensors(17)
    good = call()
    return [
        [x, 1, *good[2:]], [None, *good[1:]], [x.double(), *good[1:]], [x[0], *good[1:]],
        [x[:, :3], *good[1:]], [torch.zeros(17, 6)[:, :4], *good[1:]], [x, None, y[:16], *good[3:]],
        [torch.zeros(69)[1:].view(17, 4), *good[1:]], [x, None, y.view(torch.uint8), *good[3:]], call(count=3),
        call(count=2**31), [*good[:3], 1.5, *good[4:]], [*good[:4], 128, *good[5:]],
        [*good[:6], None], call(n=1001), call(count=6), [*good[:3], None, *good[4:]],
    ]  # fmt: skip
