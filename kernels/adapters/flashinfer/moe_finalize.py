"""``flashinfer.moe_gemm_finalize``: a mixture of experts' second layer for Hopper, added to what tokens have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.adapters.flashinfer import moe_routes
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_FINALIZE = f"{moe_routes.MOE}.sm90_contiguous_grouped_gemm_finalize_fusion"


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return moe_routes.refusal(config, step=32)


def problems(config: Config) -> Sequence[Problem]:
    """One token, tiles that are not full, experts without tokens, odd widths, layers of Qwen3-30B-A3B and Mixtral."""
    shapes = [(1, 2, 64, 64), (3, 4, 128, 96), (130, 8, 512, 160), (1024, 128, 2048, 768), (2048, 8, 4096, 1792)]
    step = 2 * configs.integer(config, "tile_columns") if config["paired"] else 1
    return [
        {"tokens": tokens, "experts": experts, "hidden": -(-h // step) * step, "inner": i}
        for tokens, experts, h, i in shapes
    ]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Tokens with random experts and scales. ``out`` is what is added to."""
    import torch

    tile, top_k, experts = configs.integer(config, "tile_rows"), configs.integer(config, "top_k"), problem["experts"]
    dtype, hidden, inner, tokens = str(config["dtype"]), problem["hidden"], problem["inner"], problem["tokens"]
    draw = torch.Generator(device="cpu").manual_seed(seed)
    order = torch.rand(tokens, experts, generator=draw).argsort(dim=1) if top_k <= experts else None
    chosen = order[:, :top_k].tolist() if order is not None else [[0] * top_k] * tokens
    routes = moe_routes.sort_routes(chosen, experts, tile)
    scales = torch.rand(tokens, top_k, generator=draw)
    return {
        "inner": moe_routes.matrix((routes.tiles * tile, inner), inner, dtype, device, seed),
        "weights": moe_routes.matrix((experts, hidden, inner), inner, dtype, device, seed + 1),
        "out": torch.zeros(tokens, hidden, dtype=getattr(torch, dtype), device=device),
        **moe_routes.indices(routes, device),
        "scales": (scales / scales.sum(dim=1, keepdim=True)).to(device),
        "rows": routes.tiles * tile,
        "hidden": hidden,
        "columns": inner,
        "experts": experts,
        "tokens": tokens,
        "out_rows": tokens,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What ``out`` held, and the rows times the weights of their expert and the router's scale, in float64."""
    import torch

    tile, top_k = configs.integer(config, "tile_rows"), configs.integer(config, "top_k")
    products = moe_routes.by_tile(inputs["inner"].double(), inputs["weights"], inputs["tile_experts"], tile)
    row = inputs["tile_limits"].repeat_interleave(tile)
    held = torch.arange(row.numel(), device=row.device) < row
    route = inputs["routes"].long()[held]
    scaled = products[held] * inputs["scales"].double().flatten()[route].unsqueeze(1)
    return {"out": inputs["out"].double().index_add(0, route // top_k, scaled)}


def tolerance(config: Config) -> Tolerance:
    """Sums in float32; each of ``top_k`` is rounded to the stored dtype, and so is each partial sum, below 4."""
    top_k, dtype = configs.integer(config, "top_k"), str(config["dtype"])
    half = rounding.tolerance(dtype, 0.0).rtol
    return Tolerance(rtol=2 * half, atol=moe_routes.SUM + 2 * top_k * half)


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations for each product; the weights of the experts that have tokens are read once.

    >>> cost({"top_k": 2}, {"tokens": 3, "experts": 8, "hidden": 64, "inner": 32}).flops
    24576
    """
    top_k, tokens = configs.integer(config, "top_k"), problem["tokens"]
    hidden, inner, rows = problem["hidden"], problem["inner"], problem["tokens"] * top_k
    used = min(problem["experts"], rows)
    return Cost(2 * rows * hidden * inner, 2 * (rows * inner + used * hidden * inner + tokens * hidden))


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's product of groups of rows, scaled and added."""
    import torch

    tile, top_k, ends = (
        configs.integer(config, "tile_rows"),
        configs.integer(config, "top_k"),
        moe_routes.ends(config, inputs),
    )
    limits = inputs["tile_limits"].repeat_interleave(tile)
    held = torch.arange(limits.numel(), device=limits.device) < limits
    scales = inputs["scales"].flatten()[inputs["routes"]] * held
    tokens, dtype = inputs["routes"] // top_k, inputs["out"].dtype

    def layer() -> Any:
        rows = moe_routes.grouped_mm()(inputs["inner"], inputs["weights"].transpose(1, 2), offs=ends)
        return inputs["out"].index_add(0, tokens, rows * scales.unsqueeze(1).to(dtype))

    return {"torch grouped_mm, mul, index_add": layer} if moe_routes.grouped_mm() else {}


@kernel(
    op="flashinfer.moe_gemm_finalize",
    imports=[_FINALIZE],
    targets=["sm_90a"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    in_place=["out"],
    special_values=["zero"],
    deterministic=False,
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    peer=peer,
    arguments={
        **moe_routes.INDICES, "a_ptr": "inner", "out_ptr": "out", "token_final_scales_ptr": "scales", "n": "hidden",
        "k": "columns", "num_tokens": "tokens",
    },
    speed_only=GRID,
)  # fmt: skip
def moe_gemm_finalize(
    dtype: DType,
    top_k: int,
    tile_rows: int = 128,
    pdl: bool = False,
    tile_columns: Tuned[int] = 128,
    paired: Tuned[bool] = False,
    along_rows: Tuned[bool] = False,
) -> Any:
    """``moe_gemm_finalize(inner, weights, out, tile_experts, tile_limits, routes, tiles, scales, rows, hidden, columns,
    experts, tokens, out_rows, stream)``: the second layer of a mixture of experts, added to ``out``.

    All tensors are contiguous and passed as addresses. ``inner`` is ``[rows, columns]``, ``weights`` ``[experts,
    hidden, columns]``, ``out`` ``[tokens, hidden]``, which the caller fills with zeros; ``out_rows`` is ``tokens``.
    ``scales`` are the router's, float32 ``[tokens, top_k]``; the other arrays are those of ``moe_gather_gemm``. Sums
    are made by atomic additions in ``dtype``, in any order. 8 divides ``hidden`` and ``columns``; ``paired``, which
    has two blocks share rows, is for an even number of tiles of ``hidden``.
    """
    return moe_routes.compiled(
        f"{_FINALIZE}:_get_compiled_finalize_kernel",
        dtype, tile_rows, tile_columns, (1, 2 if paired else 1), top_k, pdl,
        out_ptr=moe_routes.pointer(dtype), token_scales_ptr=moe_routes.pointer("float32", 4), num_tokens=1, out_rows=1,
        use_fused_finalize=True, raster_along_m=along_rows,
    )  # fmt: skip
