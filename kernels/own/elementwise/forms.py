"""The forms that elementwise kernels take tensors in: contiguous ones of any length, or rows with strides of their own.

With ``rank`` 1, tensors are one-dimensional, of the same length and contiguous; a contiguous tensor of any shape is
passed as ``x.view(-1)``. With ``rank`` 2 they are matrices of the same shape, whose row strides keep every row
aligned to 16 bytes. The output may be an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Problem
from precast.kernels.authoring.dtypes import bits
from precast.kernels.authoring.launch_plan import LaunchPlan
from precast.kernels.own.tiles import Tile
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.program.expression import Expression
from precast.loader.contract.format.target import Target

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


def random(config: Config, problem: Problem, *, device: Any, seed: int) -> Any:
    """An input of a problem. Padding is memory between the rows."""
    return tensors.normal(shape(problem), str(config["dtype"]), device=device, seed=seed, row_stride=_stride(problem))


def empty(config: Config, problem: Problem, *, device: Any) -> Any:
    """An output of a problem."""
    return tensors.empty(shape(problem), str(config["dtype"]), device=device, row_stride=_stride(problem))


def launch(config: Config, parameters: tuple[str, ...]) -> LaunchPlan:
    """One block for each tile, and one where there is none.

    >>> plan = launch({"dtype": "bfloat16", "rank": 1, "threads": 128, "unroll": 4}, ("x", "out"))
    >>> plan.launch({"x.shape[0]": 5000}).grid
    (2, 1, 1)
    >>> plan = launch({"dtype": "bfloat16", "rank": 2, "threads": 128, "unroll": 4}, ("x", "out"))
    >>> plan.launch({"x.shape[0]": 3, "x.shape[1]": 5000}).grid
    (6, 1, 1)
    """
    tile = tile_of(config)
    blocks: Expression = ("ceil_div", "x.shape[0]", tile.size)
    if config["rank"] == 2:
        blocks = ("mul", "x.shape[0]", ("max", ("ceil_div", "x.shape[1]", tile.size), 1))
    return LaunchPlan(grid=(("max", blocks, 1), 1, 1), block=(tile.threads, 1, 1), parameters=parameters)


def tile_of(config: Config) -> Tile:
    """How the threads of a block share what it takes."""
    vector = 128 // bits(str(config["dtype"]))
    return Tile(vector, configs.integer(config, "threads"), configs.integer(config, "unroll"))


def _stride(problem: Problem) -> int | None:
    return problem["columns"] + problem.get("padding", 0) if "columns" in problem else None
