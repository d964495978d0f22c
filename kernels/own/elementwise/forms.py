"""Elementwise kernels: the forms in which they take tensors, and the decorator that declares them.

With ``rank`` 1, tensors are one-dimensional, of the same length and contiguous; a contiguous tensor of any shape is
passed as ``x.view(-1)``. With ``rank`` 2 they are matrices of the same shape, whose row strides keep every row
aligned to 16 bytes. The output may be an input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import SPECIAL_VALUES, Cost, Problem, kernel
from precast.kernels.authoring.dtypes import bits
from precast.kernels.own.tiles import Tile
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

F = TypeVar("F", bound=Callable[..., Any])
_THREADS = (32, 64, 128, 256, 512, 1024)
_UNROLL = (1, 2, 4, 8)
_RANKS = (1, 2)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "float32", "rank": 1, "threads": 100, "unroll": 4}, Target.parse("sm_90a"))
    'threads is 100: use one of 32, 64, 128, 256, 512, 1024'
    """
    for key, allowed in (("threads", _THREADS), ("unroll", _UNROLL), ("rank", _RANKS)):
        if reason := configs.not_among(config, key, allowed):
            return reason
    return configs.unsupported_dtype(config)


def problems(config: Config) -> Sequence[Problem]:
    """Sizes around every boundary: none, one element, a vector, a tile, several tiles and a part; a large one last.

    >>> [p["n"] for p in problems({"dtype": "bfloat16", "rank": 1, "threads": 128, "unroll": 4})][:5]
    [0, 1, 7, 8, 9]
    >>> problems({"dtype": "bfloat16", "rank": 2, "threads": 128, "unroll": 4})[-1]
    {'rows': 16384, 'columns': 4096, 'padding': 0}
    """
    vector, tile = tile_of(config).vector, tile_of(config).size
    lengths = [0, 1, vector - 1, vector, vector + 1, tile - 1, tile, tile + 1, 7 * tile + 3 * vector + 1]
    if config["rank"] == 1:
        return [{"n": n} for n in (*lengths, 1 << 26)]
    cases = [(3 + i % 2, columns, (i + 1) % 3) for i, columns in enumerate(lengths)]
    cases += [(0, vector, 0), (1, 3 * tile + 1, 2), (1 << 14, 1 << 12, 0)]
    # Rows are aligned, whatever their length.
    return [
        {"rows": rows, "columns": columns, "padding": -columns % vector + vectors * vector}
        for rows, columns, vectors in cases
    ]


def large(config: Config) -> Problem:
    """More elements than 32 bits count, and a part of a tile.

    >>> large({"dtype": "bfloat16", "rank": 1, "threads": 128, "unroll": 4})["n"] - 2**31
    4099
    """
    if config["rank"] == 1:
        return {"n": (1 << 31) + tile_of(config).size + 3}
    return {"rows": (1 << 18) + 67, "columns": 8191, "padding": 1}


def shape(problem: Problem) -> tuple[int, ...]:
    """The shape of every tensor of a problem.

    >>> shape({"n": 5}), shape({"rows": 2, "columns": 5, "padding": 3})
    ((5,), (2, 5))
    """
    return (problem["n"],) if "n" in problem else (problem["rows"], problem["columns"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """A decorator that declares a kernel whose result, ``out``, is a function of each element of its inputs alone.

    ``tensors`` are the inputs, in call order; ``out`` follows, then ``numbers``, each from a seed. ``flops`` is
    how many operations an element takes. ``reference``, ``tolerance`` and ``peer`` are functions of the module.

    >>> double = Elementwise(op="double", tensors=("x",))
    >>> double.arguments, double.cost({"dtype": "bfloat16"}, {"n": 1000})
    (('x', 'out'), Cost(flops=1000, bytes=4000))
    """

    op: str
    tensors: tuple[str, ...]
    numbers: Mapping[str, Callable[[int], float]] = field(default_factory=dict)
    flops: Callable[[Config], int] = lambda config: 1
    supports: Callable[[Config, Target], str | None] = supports
    special_values: Sequence[str] = SPECIAL_VALUES

    def __call__(self, function: F) -> F:
        """Declare the function that compiles the kernel."""
        declare = kernel(
            op=self.op,
            targets=["sm_80+"],
            supports=self.supports,
            problems=problems,
            large=large,
            inputs=self.inputs,
            outputs=["out"],
            special_values=self.special_values,
            cost=self.cost,
        )
        return declare(function)

    @property
    def arguments(self) -> tuple[str, ...]:
        """All arguments, in call order."""
        return (*self.tensors, "out", *self.numbers)

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        """Every argument of one problem. Padding is memory between the rows."""
        sizes, dtype = shape(problem), str(config["dtype"])
        stride = sizes[1] + problem.get("padding", 0) if len(sizes) == 2 else None
        values = {
            name: tensors.normal(sizes, dtype, device=device, seed=seed + i, row_stride=stride)
            for i, name in enumerate(self.tensors)
        }
        values["out"] = tensors.empty(sizes, dtype, device=device, row_stride=stride)
        return values | {name: number(seed) for name, number in self.numbers.items()}

    def cost(self, config: Config, problem: Problem) -> Cost:
        """Each tensor read once or written once."""
        n = prod(shape(problem))
        passes = len(self.tensors) + 1
        return Cost(flops=self.flops(config) * n, bytes=passes * n * bits(str(config["dtype"])) // 8)


def tile_of(config: Config) -> Tile:
    """How the threads of a block share what it takes."""
    vector = 128 // bits(str(config["dtype"]))
    return Tile(vector, configs.integer(config, "threads"), configs.integer(config, "unroll"))
