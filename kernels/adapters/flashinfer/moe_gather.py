"""``flashinfer.moe_gather_gemm``: a mixture of experts' first layer for Hopper, which gathers rows as it multiplies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.adapters.flashinfer import moe_routes
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_GATHER = f"{moe_routes.MOE}.sm90_contiguous_gather_grouped_gemm_act_fusion"
_SWIGLU = 3  # in the library's list of activations
_PAIR = 32  # columns of the up projection, then as many of the gate
_SLOPE = 1.1  # of silu
_LIMIT = 3.4028234663852886e38  # the gate is not clamped


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return moe_routes.refusal(config, step=64)


def problems(config: Config) -> Sequence[Problem]:
    """A tile for each expert, experts without tokens, odd widths, and layers of Qwen3-30B-A3B and Mixtral."""
    shapes = [(1, 2, 64, 64), (2, 3, 200, 96), (3, 8, 512, 160), (8, 128, 2048, 768), (16, 8, 4096, 1792)]
    return [{"tiles": tiles, "experts": experts, "hidden": h, "inner": i} for tiles, experts, h, i in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Tokens whose tiles are all full, since rows behind a limit hold no result."""
    import torch

    tile, top_k, experts = configs.integer(config, "tile_rows"), configs.integer(config, "top_k"), problem["experts"]
    dtype, hidden, inner = str(config["dtype"]), problem["hidden"], problem["inner"]
    tokens = problem["tiles"] * tile
    block = [[(token // tile + choice) % experts for choice in range(top_k)] for token in range(tokens)]
    routes = moe_routes.sort_routes(block, experts, tile)
    return {
        "x": moe_routes.matrix((tokens, hidden), hidden, dtype, device, seed),
        "weights": moe_routes.matrix((experts, 2 * inner, hidden), hidden, dtype, device, seed + 1),
        "out": torch.empty(routes.tiles * tile, inner, dtype=getattr(torch, dtype), device=device),
        **moe_routes.indices(routes, device),
        "tokens": tokens,
        "rows": routes.tiles * tile,
        "columns": 2 * inner,
        "hidden": hidden,
        "experts": experts,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Each tile times the weights of its expert, in float64; ``up * silu(gate)``."""
    import torch

    tile, top_k = configs.integer(config, "tile_rows"), configs.integer(config, "top_k")
    rows = inputs["x"].double()[(inputs["routes"] // top_k).long()]
    both = moe_routes.by_tile(rows, inputs["weights"], inputs["tile_experts"], tile).unflatten(-1, (-1, 2, _PAIR))
    up, gate = both[..., 0, :].flatten(-2), both[..., 1, :].flatten(-2)
    return {"out": up * torch.nn.functional.silu(gate)}


def tolerance(config: Config) -> Tolerance:
    """Two sums, the slope of the activation, an approximate exponential, and the rounding to the stored dtype."""
    stored = rounding.stored(str(config["dtype"]), 2.0**-11)
    return Tolerance(rtol=stored.rtol, atol=8 * _SLOPE * moe_routes.SUM, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations for each product; the weights of the experts that have tokens are read once.

    >>> cost({"tile_rows": 64, "top_k": 1}, {"tiles": 1, "experts": 1, "hidden": 64, "inner": 64}).flops
    1048576
    """
    tile, top_k = configs.integer(config, "tile_rows"), configs.integer(config, "top_k")
    rows, hidden, inner = problem["tiles"] * tile * top_k, problem["hidden"], problem["inner"]
    used = min(problem["experts"], problem["tiles"] + top_k - 1)
    tokens = problem["tiles"] * tile
    return Cost(4 * rows * hidden * inner, 2 * (tokens * hidden + used * 2 * inner * hidden + rows * inner))


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's product of groups of rows, after a copy of the rows and without the activation."""
    from torch.nn.functional import silu

    top_k, ends = configs.integer(config, "top_k"), moe_routes.ends(config, inputs)

    def layer() -> Any:
        rows = inputs["x"][inputs["routes"] // top_k]
        both = moe_routes.grouped_mm()(rows, inputs["weights"].transpose(1, 2), offs=ends).unflatten(-1, (-1, 2, _PAIR))
        return (both[..., 0, :] * silu(both[..., 1, :])).flatten(-2)

    return {"torch index, grouped_mm, silu, mul": layer} if moe_routes.grouped_mm() else {}


@kernel(
    op="flashinfer.moe_gather_gemm",
    imports=[_GATHER],
    targets=["sm_90a"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    special_values=["zero"],
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    peer=peer,
    arguments={**moe_routes.INDICES, "a_ptr": "x", "c_ptr": "out", "orig_m": "tokens", "n": "columns", "k": "hidden"},
    speed_only=GRID,  # a static persistent grid of clusters, none of which waits for another
)
def moe_gather_gemm(
    dtype: DType,
    top_k: int,
    tile_rows: int = 128,
    pdl: bool = False,
    tile_columns: Tuned[int] = 128,
    swizzle: Tuned[int] = 1,
) -> Any:
    """``moe_gather_gemm(x, weights, out, tile_experts, tile_limits, routes, tiles, tokens, rows, columns, hidden,
    experts, stream)``: the first layer of a mixture of experts, ``silu(gate) * up`` of the gathered tokens.

    All tensors are contiguous and passed as addresses. ``x`` is ``[tokens, hidden]``, ``weights`` ``[experts, columns,
    hidden]`` with 32 rows of the up projection before 32 of the gate and so on, ``out`` ``[rows, columns / 2]``. The
    int32 ``tile_experts`` and ``tile_limits`` have for each tile of ``tile_rows`` rows its expert and the row behind
    its last, ``routes`` ``[rows]`` has ``token * top_k + place``, ``tiles`` ``[1]`` how many tiles there are. Rows
    behind a limit are left with any values. 8 divides ``hidden``, 64 ``columns``, ``tile_rows`` ``rows``. ``stream``
    is the handle of the stream.
    """
    return moe_routes.compiled(
        f"{_GATHER}:_get_compiled_gather_kernel",
        dtype, tile_rows, tile_columns, (1, 1), top_k, pdl,
        c_ptr=moe_routes.pointer(dtype), orig_m=1, activation_type=_SWIGLU, swiglu_alpha=1.0, swiglu_beta=0.0,
        swiglu_limit=_LIMIT, situ_beta=None, situ_linear_beta=None, swizzle_size=swizzle, raster_along_m=False,
    )  # fmt: skip
