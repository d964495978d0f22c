"""``scale``: multiply every element of a contiguous tensor by a number.

The compiled function is called as ``scale(x, out, factor)``: two one-dimensional tensors of the same length, any length
at all, each aligned to 16 bytes; they may be the same tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.tiles import Tile
from precast.loader.format.config import Config
from precast.loader.format.launch_plan import LaunchPlan
from precast.loader.format.target import Target

_THREADS = (32, 64, 128, 256, 512, 1024)
_UNROLL = (1, 2, 4, 8)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "float32", "threads": 100, "unroll": 4}, Target.parse("sm_90a"))
    'threads is 100: use one of 32, 64, 128, 256, 512, 1024'
    """
    if reason := configs.not_among(config, "threads", _THREADS):
        return reason
    if config["unroll"] not in _UNROLL:
        return f"unroll is {config['unroll']}: use one of {', '.join(map(str, _UNROLL))}"
    return configs.unsupported_dtype(config)


def problems(config: Config) -> Sequence[Problem]:
    """Lengths around every boundary: none, one element, a vector, a tile, several tiles and a part; a large one last.

    >>> [p["n"] for p in problems({"dtype": "bfloat16", "threads": 128, "unroll": 4})][:5]
    [0, 1, 7, 8, 9]
    """
    vector, tile = _tile(config).vector, _tile(config).size
    lengths = [0, 1, vector - 1, vector, vector + 1, tile - 1, tile, tile + 1, 7 * tile + 3 * vector + 1, 1 << 26]
    return [{"n": n} for n in lengths]


def large(config: Config) -> Problem:
    """More elements than 32 bits count, and a part of a tile.

    >>> large({"dtype": "bfloat16", "threads": 128, "unroll": 4})["n"] - 2**31
    4099
    """
    return {"n": (1 << 31) + _tile(config).size + 3}


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``out`` and ``factor`` of one problem."""
    dtype, n = str(config["dtype"]), problem["n"]
    return {
        "x": tensors.normal((n,), dtype, device=device, seed=seed),
        "out": tensors.empty((n,), dtype, device=device),
        "factor": 1.7 - seed % 5,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The products in float64, with the factor rounded to float32."""
    import torch

    factor = torch.tensor(inputs["factor"], dtype=torch.float32).double().item()
    return {"out": inputs["x"].double() * factor}


def tolerance(config: Config) -> Tolerance:
    """One rounding in float32, of at most ``2**-24``, and one to the stored dtype."""
    return rounding.stored(str(config["dtype"]), 2.0**-23)


def cost(config: Config, problem: Problem) -> Cost:
    """One multiplication for each element, which is read once and written once.

    >>> cost({"dtype": "bfloat16"}, {"n": 1000})
    Cost(flops=1000, bytes=4000)
    """
    n = problem["n"]
    return Cost(flops=n, bytes=2 * n * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own multiplication, into the same memory."""
    import torch

    x, out, factor = inputs["x"], inputs["out"], inputs["factor"]
    return {"torch.mul": lambda: torch.mul(x, factor, out=out)}


def launch(config: Config) -> LaunchPlan:
    """One block for each tile, and one for an empty tensor.

    >>> launch({"dtype": "bfloat16", "threads": 128, "unroll": 4}).launch({"x.shape[0]": 5000}).grid
    (2, 1, 1)
    """
    tile = _tile(config)
    blocks = ("max", ("ceil_div", "x.shape[0]", tile.size), 1)
    return LaunchPlan(grid=(blocks, 1, 1), block=(tile.threads, 1, 1), parameters=("x", "out", "factor"))


def _tile(config: Config) -> Tile:
    vector = 128 // bits(str(config["dtype"]))
    return Tile(vector, configs.integer(config, "threads"), configs.integer(config, "unroll"))


@kernel(
    op="scale",
    targets=["sm_80+"],
    supports=supports,
    problems=problems,
    large=large,
    inputs=inputs,
    outputs=["out"],
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    peer=peer,
    launch=launch,
)
def scale(dtype: DType, threads: Tuned[int] = 128, unroll: Tuned[int] = 4) -> Any:
    """Compile ``scale(x, out, factor)`` for one dtype."""
    from precast.kernels.own.elementwise.device.scale import compile_scale

    return compile_scale(to_cutlass(dtype), threads, unroll)
