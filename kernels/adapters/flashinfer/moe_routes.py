"""What the two kernels of FlashInfer's mixture of experts for Hopper have in common: rows that are sorted by expert.

A router gives each token its experts. Rows of one expert stand together, padded to whole tiles: row ``r`` of the sorted
order is token ``routes[r] // top_k``. ``moe_gather`` gathers the rows while it multiplies, ``moe_finalize`` adds what
the experts of a token give, times the router's scales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.dtypes import to_cutlass
from precast.loader.contract.format.config import Config

MOE = "flashinfer.fused_moe.cute_dsl"
SUM = 2.0**-12  # the error of a sum in float32 whose terms add up to about one
_WIDEST = 256  # columns of a tile
_ADDRESS = 1 << 20  # of what a pointer points to while compiling: aligned, and never read
# The library's names for what both kernels take, and this project's.
INDICES = {
    "tile_idx_to_expert_idx_ptr": "tile_experts", "tile_idx_to_mn_limit_ptr": "tile_limits",
    "token_id_mapping_ptr": "routes", "num_non_exiting_tiles_ptr": "tiles", "b_ptr": "weights", "l": "experts",
    "m": "rows",
}  # fmt: skip


def refusal(config: Config, *, step: int) -> str | None:
    """Why a config cannot be built, or None."""
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
        for position, expert in enumerate(places):
            at[expert].append(token * top_k + position)
    of_tile: list[int] = []
    limits: list[int] = []
    rows: list[int] = []
    for expert, entries in enumerate(at):
        tiles = -(-len(entries) // tile_rows)
        of_tile += [expert] * tiles
        limits += [len(rows) + len(entries)] * tiles
        rows += [*entries, *[0] * (tiles * tile_rows - len(entries))]
    return Routes(tuple(of_tile), tuple(limits), tuple(rows))


def matrix(shape: tuple[int, ...], depth: int, dtype: str, device: Any, seed: int) -> Any:
    """Values whose products, summed over ``depth``, are about one in size."""
    return tensors.normal(shape, dtype, device=device, seed=seed).mul_(depth**-0.25)


def indices(routes: Routes, device: Any) -> dict[str, Any]:
    """The arguments that say where rows stand."""
    import torch

    def whole(values: Sequence[int]) -> Any:
        return torch.tensor(values, dtype=torch.int32, device=device)

    return {
        "tile_experts": whole(routes.experts),
        "tile_limits": whole(routes.limits),
        "routes": whole(routes.rows),
        "tiles": whole([routes.tiles]),
    }


def by_tile(rows: Any, weights: Any, experts: Any, tile: int) -> Any:
    """Rows times the transposed weights of their tile's expert."""
    import torch

    tiles = rows.unflatten(0, (-1, tile))
    return torch.cat(
        [rows_of_tile @ weights[e].double().T for rows_of_tile, e in zip(tiles, experts.tolist(), strict=True)]
    )


def grouped_mm() -> Any:
    """torch's product of groups of rows; None where it has none."""
    import torch

    return getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


def ends(config: Config, inputs: Mapping[str, Any]) -> Any:
    """The row behind the last tile of each expert."""
    import torch

    experts = torch.arange(inputs["weights"].shape[0], device=inputs["tile_experts"].device)
    tiles = torch.searchsorted(inputs["tile_experts"], experts.to(torch.int32), right=True)
    return (tiles * configs.integer(config, "tile_rows")).to(torch.int32)


def compiled(
    source: str, dtype: str, rows: int, columns: int, cluster: Sequence[int], top_k: int, pdl: bool, **more: Any
) -> Any:
    """Call a compile function, which keeps its kernels in a dictionary of its module: a process compiles one."""
    from cutlass.cute.runtime import make_fake_stream

    of_library = library.FLASHINFER.module("flashinfer.cute_dsl.utils")
    index = pointer("int32", 4)
    return library.compiled(
        source,
        **{
            "a_ptr": pointer(dtype), "b_ptr": pointer(dtype), "tile_idx_ptr": index, "mn_limit_ptr": index,
            "token_id_ptr": index, "num_tiles_ptr": index, "permuted_m": rows, "n": columns, "k": 64,
            "num_experts": 1, "stream": make_fake_stream(), "ab_dtype": to_cutlass(dtype),
            "c_dtype": to_cutlass(dtype), "tile_shape_mn": (rows, columns), "cluster_shape_mn": tuple(cluster),
            "max_active_clusters": of_library.get_max_active_clusters(cluster[0] * cluster[1]), "topk": top_k,
            "enable_pdl": pdl, **more,
        },
    )  # fmt: skip


def pointer(dtype: str, alignment: int = 16) -> Any:
    """A pointer to compile for."""
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_ptr

    return make_ptr(to_cutlass(dtype), _ADDRESS, cute.AddressSpace.gmem, assumed_align=alignment)
