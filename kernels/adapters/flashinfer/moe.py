"""FlashInfer's fused mixture of experts for Hopper: ``moe_gather_gemm`` and ``moe_gemm_finalize``.

A router gives each token its experts. Rows of one expert stand together, padded to whole tiles: row ``r`` of the sorted
order is token ``routes[r] // top_k``. The first kernel gathers the rows while it multiplies, the second adds what the
experts of a token give, times the router's scales.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.format.config import Config
from precast.loader.format.target import Target

_MOE = "flashinfer.fused_moe.cute_dsl"
_GATHER = f"{_MOE}.sm90_contiguous_gather_grouped_gemm_act_fusion"
_FINALIZE = f"{_MOE}.sm90_contiguous_grouped_gemm_finalize_fusion"
_SWIGLU = 3  # in the library's list of activations
_WIDEST = 256  # columns of a tile
_PAIR = 32  # columns of the up projection, then as many of the gate
_SLOPE = 1.1  # of silu
_SUM = 2.0**-12  # the error of a sum in float32 whose terms add up to about one
_ADDRESS = 1 << 20  # of what a pointer points to while compiling: aligned, and never read
_LIMIT = 3.4028234663852886e38  # the gate is not clamped


def supports_gather(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return _refusal(config, step=64)


def supports_finalize(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return _refusal(config, step=32)


def _refusal(config: Config, *, step: int) -> str | None:
    reason = library.FLASHINFER.obstacle()
    if reason is None and config["dtype"] not in library.HALVES:
        reason = f"dtype {config['dtype']!r} is not supported: use one of {', '.join(library.HALVES)}"
    return reason or tile_refusal(config, step=step)


def tile_refusal(config: Config, *, step: int) -> str | None:
    """Why a tile is not one of the kernels', or None.

    >>> tile_refusal({"tile_rows": 64, "tile_columns": 256}, step=64)
    'tile_rows is 64: use 128 for more than 128 tile_columns'
    """
    rows, columns = configs.integer(config, "tile_rows"), configs.integer(config, "tile_columns")
    if rows not in (64, 128):
        return f"tile_rows is {rows}: use 64 or 128"
    if not 0 < columns <= _WIDEST or columns % step:
        return f"tile_columns is {columns}: use a multiple of {step} up to {_WIDEST}"
    if columns > 128 and rows == 64:
        return f"tile_rows is {rows}: use 128 for more than 128 tile_columns"
    return None


@dataclass(frozen=True, slots=True)
class Routes:
    """Rows sorted by expert, as the library's ``moe_sort`` gives them.

    ``experts`` and ``limits`` have an item for each tile: its expert, and the row behind its last. ``rows`` has, for
    each row of the tiles, ``token * top_k + place``, and 0 where a tile has no more. ``tiles`` says how many there
    are.
    """

    experts: Sequence[int]
    limits: Sequence[int]
    rows: Sequence[int]

    @property
    def tiles(self) -> int:
        """How many tiles hold rows."""
        return len(self.experts)


def sort_routes(chosen: Sequence[Sequence[int]], experts: int, tile_rows: int) -> Routes:
    """The routes of tokens, of which each has chosen some experts.

    >>> found = sort_routes([[0, 1], [1, 0], [1, 2]], 3, 2)
    >>> found.experts, found.limits, found.rows
    ((0, 1, 1, 2), (2, 5, 5, 7), (0, 3, 1, 2, 4, 0, 5, 0))
    """
    top_k = len(chosen[0])
    at: list[list[int]] = [[] for _ in range(experts)]
    for token, places in enumerate(chosen):
        for place, expert in enumerate(places):
            at[expert].append(token * top_k + place)
    of_tile: list[int] = []
    limits: list[int] = []
    rows: list[int] = []
    for expert, found in enumerate(at):
        tiles = -(-len(found) // tile_rows)
        of_tile += [expert] * tiles
        limits += [len(rows) + len(found)] * tiles
        rows += [*found, *[0] * (tiles * tile_rows - len(found))]
    return Routes(tuple(of_tile), tuple(limits), tuple(rows))


def problems(config: Config) -> Sequence[Problem]:
    """A tile for each expert, experts without tokens, odd widths, and layers of Qwen3-30B-A3B and Mixtral."""
    shapes = [(1, 2, 64, 64), (2, 3, 200, 96), (3, 8, 512, 160), (8, 128, 2048, 768), (16, 8, 4096, 1792)]
    return [{"tiles": tiles, "experts": experts, "hidden": h, "inner": i} for tiles, experts, h, i in shapes]


def finalize_problems(config: Config) -> Sequence[Problem]:
    """One token, tiles that are not full, experts without tokens, odd widths, layers of Qwen3-30B-A3B and Mixtral."""
    shapes = [(1, 2, 64, 64), (3, 4, 128, 96), (130, 8, 512, 160), (1024, 128, 2048, 768), (2048, 8, 4096, 1792)]
    step = 2 * configs.integer(config, "tile_columns") if config["paired"] else 1
    return [
        {"tokens": tokens, "experts": experts, "hidden": -(-h // step) * step, "inner": i}
        for tokens, experts, h, i in shapes
    ]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Tokens whose tiles are all full, since rows behind a limit hold no result."""
    import torch

    tile, top_k, experts = configs.integer(config, "tile_rows"), configs.integer(config, "top_k"), problem["experts"]
    dtype, hidden, inner = str(config["dtype"]), problem["hidden"], problem["inner"]
    tokens = problem["tiles"] * tile
    block = [[(token // tile + place) % experts for place in range(top_k)] for token in range(tokens)]
    routes = sort_routes(block, experts, tile)
    return {
        "x": _matrix((tokens, hidden), hidden, dtype, device, seed),
        "weights": _matrix((experts, 2 * inner, hidden), hidden, dtype, device, seed + 1),
        "out": torch.empty(routes.tiles * tile, inner, dtype=getattr(torch, dtype), device=device),
        **_indices(routes, device),
        "tokens": tokens,
        "rows": routes.tiles * tile,
        "columns": 2 * inner,
        "hidden": hidden,
        "experts": experts,
    }


def finalize_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Tokens with random experts and scales. ``out`` is what is added to."""
    import torch

    tile, top_k, experts = configs.integer(config, "tile_rows"), configs.integer(config, "top_k"), problem["experts"]
    dtype, hidden, inner, tokens = str(config["dtype"]), problem["hidden"], problem["inner"], problem["tokens"]
    draw = torch.Generator(device="cpu").manual_seed(seed)
    order = torch.rand(tokens, experts, generator=draw).argsort(dim=1) if top_k <= experts else None
    chosen = order[:, :top_k].tolist() if order is not None else [[0] * top_k] * tokens
    routes = sort_routes(chosen, experts, tile)
    scales = torch.rand(tokens, top_k, generator=draw)
    return {
        "inner": _matrix((routes.tiles * tile, inner), inner, dtype, device, seed),
        "weights": _matrix((experts, hidden, inner), inner, dtype, device, seed + 1),
        "out": torch.zeros(tokens, hidden, dtype=getattr(torch, dtype), device=device),
        **_indices(routes, device),
        "scales": (scales / scales.sum(dim=1, keepdim=True)).to(device),
        "rows": routes.tiles * tile,
        "hidden": hidden,
        "columns": inner,
        "experts": experts,
        "tokens": tokens,
        "out_rows": tokens,
    }


def _matrix(shape: tuple[int, ...], depth: int, dtype: str, device: Any, seed: int) -> Any:
    """Values whose products, summed over ``depth``, are about one in size."""
    return tensors.normal(shape, dtype, device=device, seed=seed).mul_(depth**-0.25)


def _indices(routes: Routes, device: Any) -> dict[str, Any]:
    import torch

    def whole(values: Sequence[int]) -> Any:
        return torch.tensor(values, dtype=torch.int32, device=device)

    return {
        "tile_experts": whole(routes.experts),
        "tile_limits": whole(routes.limits),
        "routes": whole(routes.rows),
        "tiles": whole([routes.tiles]),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Each tile times the weights of its expert, in float64; ``up * silu(gate)``."""
    import torch

    tile, top_k = configs.integer(config, "tile_rows"), configs.integer(config, "top_k")
    rows = inputs["x"].double()[(inputs["routes"] // top_k).long()]
    both = _by_tile(rows, inputs["weights"], inputs["tile_experts"], tile).unflatten(-1, (-1, 2, _PAIR))
    up, gate = both[..., 0, :].flatten(-2), both[..., 1, :].flatten(-2)
    return {"out": up * torch.nn.functional.silu(gate)}


def finalize_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What ``out`` held, and the rows times the weights of their expert and the router's scale, in float64."""
    tile, top_k = configs.integer(config, "tile_rows"), configs.integer(config, "top_k")
    found = _by_tile(inputs["inner"].double(), inputs["weights"], inputs["tile_experts"], tile)
    row = inputs["tile_limits"].repeat_interleave(tile)
    import torch

    held = torch.arange(row.numel(), device=row.device) < row
    route = inputs["routes"].long()[held]
    scaled = found[held] * inputs["scales"].double().flatten()[route].unsqueeze(1)
    return {"out": inputs["out"].double().index_add(0, route // top_k, scaled)}


def _by_tile(rows: Any, weights: Any, experts: Any, tile: int) -> Any:
    """Rows times the transposed weights of their tile's expert."""
    import torch

    tiles = rows.unflatten(0, (-1, tile))
    return torch.cat([one @ weights[e].double().T for one, e in zip(tiles, experts.tolist(), strict=True)])


def tolerance(config: Config) -> Tolerance:
    """Two sums, the slope of what is made of them, an approximate exponential, and the rounding to the stored dtype."""
    found = rounding.stored(str(config["dtype"]), 2.0**-11)
    return Tolerance(rtol=found.rtol, atol=8 * _SLOPE * _SUM, ulps=found.ulps)


def finalize_tolerance(config: Config) -> Tolerance:
    """Sums in float32; each of ``top_k`` is rounded to the stored dtype, and so is each partial sum, below 4."""
    top_k, dtype = configs.integer(config, "top_k"), str(config["dtype"])
    half = rounding.tolerance(dtype, 0.0).rtol
    return Tolerance(rtol=2 * half, atol=_SUM + 2 * top_k * half)


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


def finalize_cost(config: Config, problem: Problem) -> Cost:
    """The same for the second product; each row of ``out`` is read and written for each of its experts."""
    top_k, tokens = configs.integer(config, "top_k"), problem["tokens"]
    hidden, inner, rows = problem["hidden"], problem["inner"], problem["tokens"] * top_k
    used = min(problem["experts"], rows)
    return Cost(2 * rows * hidden * inner, 2 * (rows * inner + used * hidden * inner + tokens * hidden))


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's product of groups of rows, behind a copy of the rows and before what is made of them."""
    from torch.nn.functional import silu

    top_k, ends = configs.integer(config, "top_k"), _ends(config, inputs)

    def layer() -> Any:
        rows = inputs["x"][inputs["routes"] // top_k]
        both = _grouped()(rows, inputs["weights"].transpose(1, 2), offs=ends).unflatten(-1, (-1, 2, _PAIR))
        return (both[..., 0, :] * silu(both[..., 1, :])).flatten(-2)

    return {"torch index, grouped_mm, silu, mul": layer} if _grouped() else {}


def finalize_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's product of groups of rows, scaled and added."""
    import torch

    tile, top_k, ends = configs.integer(config, "tile_rows"), configs.integer(config, "top_k"), _ends(config, inputs)
    limits = inputs["tile_limits"].repeat_interleave(tile)
    held = torch.arange(limits.numel(), device=limits.device) < limits
    scales = inputs["scales"].flatten()[inputs["routes"]] * held
    tokens, dtype = inputs["routes"] // top_k, inputs["out"].dtype

    def layer() -> Any:
        rows = _grouped()(inputs["inner"], inputs["weights"].transpose(1, 2), offs=ends)
        return inputs["out"].index_add(0, tokens, rows * scales.unsqueeze(1).to(dtype))

    return {"torch grouped_mm, mul, index_add": layer} if _grouped() else {}


def _grouped() -> Any:
    import torch

    return getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


def _ends(config: Config, inputs: Mapping[str, Any]) -> Any:
    """The row behind the last tile of each expert."""
    import torch

    experts = torch.arange(inputs["weights"].shape[0], device=inputs["tile_experts"].device)
    tiles = torch.searchsorted(inputs["tile_experts"], experts.to(torch.int32), right=True)
    return (tiles * configs.integer(config, "tile_rows")).to(torch.int32)


_INDICES = {
    "tile_idx_to_expert_idx_ptr": "tile_experts", "tile_idx_to_mn_limit_ptr": "tile_limits",
    "token_id_mapping_ptr": "routes", "num_non_exiting_tiles_ptr": "tiles", "b_ptr": "weights", "l": "experts",
    "m": "rows",
}  # fmt: skip


@kernel(
    op="flashinfer.moe_gather_gemm",
    imports=[_GATHER],
    targets=["sm_90a"],
    supports=supports_gather,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    special_values=["zero"],
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    peer=peer,
    arguments={**_INDICES, "a_ptr": "x", "c_ptr": "out", "orig_m": "tokens", "n": "columns", "k": "hidden"},
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
    return _compiled(
        f"{_GATHER}:_get_compiled_gather_kernel",
        dtype, tile_rows, tile_columns, (1, 1), top_k, pdl,
        c_ptr=_pointer(dtype), orig_m=1, activation_type=_SWIGLU, swiglu_alpha=1.0, swiglu_beta=0.0,
        swiglu_limit=_LIMIT, situ_beta=None, situ_linear_beta=None, swizzle_size=swizzle, raster_along_m=False,
    )  # fmt: skip


@kernel(
    op="flashinfer.moe_gemm_finalize",
    imports=[_FINALIZE],
    targets=["sm_90a"],
    supports=supports_finalize,
    problems=finalize_problems,
    inputs=finalize_inputs,
    outputs=["out"],
    in_place=["out"],
    special_values=["zero"],
    deterministic=False,
    reference=finalize_reference,
    tolerance=finalize_tolerance,
    cost=finalize_cost,
    peer=finalize_peer,
    arguments={
        **_INDICES, "a_ptr": "inner", "out_ptr": "out", "token_final_scales_ptr": "scales", "n": "hidden",
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
    return _compiled(
        f"{_FINALIZE}:_get_compiled_finalize_kernel",
        dtype, tile_rows, tile_columns, (1, 2 if paired else 1), top_k, pdl,
        out_ptr=_pointer(dtype), token_scales_ptr=_pointer("float32", 4), num_tokens=1, out_rows=1,
        use_fused_finalize=True, raster_along_m=along_rows,
    )  # fmt: skip


def _compiled(
    source: str, dtype: str, rows: int, columns: int, cluster: Sequence[int], top_k: int, pdl: bool, **more: Any
) -> Any:
    """Call a compile function, which keeps its kernels in a dictionary of its module: a process compiles one."""
    from cutlass.cute.runtime import make_fake_stream

    of_library = library.FLASHINFER.module("flashinfer.cute_dsl.utils")
    index = _pointer("int32", 4)
    return library.compiled(
        source,
        **{
            "a_ptr": _pointer(dtype), "b_ptr": _pointer(dtype), "tile_idx_ptr": index, "mn_limit_ptr": index,
            "token_id_ptr": index, "num_tiles_ptr": index, "permuted_m": rows, "n": columns, "k": 64,
            "num_experts": 1, "stream": make_fake_stream(), "ab_dtype": to_cutlass(dtype),
            "c_dtype": to_cutlass(dtype), "tile_shape_mn": (rows, columns), "cluster_shape_mn": tuple(cluster),
            "max_active_clusters": of_library.get_max_active_clusters(cluster[0] * cluster[1]), "topk": top_k,
            "enable_pdl": pdl, **more,
        },
    )  # fmt: skip


def _pointer(dtype: str, alignment: int = 16) -> Any:
    """A pointer to compile for."""
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_ptr

    return make_ptr(to_cutlass(dtype), _ADDRESS, cute.AddressSpace.gmem, assumed_align=alignment)
