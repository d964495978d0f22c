"""``attention``: the forward pass of FlashAttention-4, in one kernel."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Literal

from precast.kernels.adapters.attention import cases, forward_tiles, library
from precast.kernels.authoring.declare import GRID, kernel
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

ARGUMENTS = {
    "mQ": "q", "mK": "k", "mV": "v", "mO": "out", "mLSE": "lse", "mCuSeqlensQ": "cu_seqlens_q",
    "mCuSeqlensK": "cu_seqlens_k", "mSeqUsedQ": "seqused_q", "mSeqUsedK": "seqused_k", "mPageTable": "page_table",
    "window_size_left": "window_left", "window_size_right": "window_right", "learnable_sink": "sink",
}  # fmt: skip
_PAGES = (16, 32, 64, 128)
_TILES = (64, 96, 128)
_QUERIES_TILE = 128  # the only one that the library has for sm_100a and sm_103a
_BATCH, _KV_HEADS, _KEYS = 2, 2, 8192


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built for a target, or None."""
    reason = library.refusal(config, target)
    if reason:
        return reason
    page = config["page"]
    if config["layout"] == "paged" and page not in _PAGES:
        return f"page is {page}: use one of {', '.join(map(str, _PAGES))}"
    if config["layout"] != "paged" and page is not None:
        return f"page is {page}, and the layout {config['layout']}: leave it out, or use layout 'paged'"
    if not config.get("pack", True) and config["heads_per_kv"] == 1:
        return "pack needs query heads that share a key head, and heads_per_kv is 1: leave it out"
    return _choice_refusal(config, target) or (_pair_refusal(config, target) if config.get("two_cta") else None)


def _choice_refusal(config: Config, target: Target) -> str | None:
    """Why what is chosen of the tiles cannot be used, or None."""
    if target.major == 9:
        return forward_tiles.refusal(config)
    for name in ("queries_tile", "stages", "resident"):
        if config.get(name):
            return f"{name} is for sm_90a, not {target}: leave it out"
    if config.get("overlap") is False:
        return f"overlap false is for sm_90a, not {target}: leave it out"
    tile = config.get("keys_tile")
    if tile is not None and config["two_cta"]:
        return "keys_tile is for single blocks, and two_cta is true: leave one of them out"
    if tile is not None and tile not in _TILES:
        return f"keys_tile is {tile}: use one of {', '.join(map(str, _TILES))}"
    return None


def _pair_refusal(config: Config, target: Target) -> str | None:
    """Why two blocks cannot share one product, or None."""
    group, size, size_v = cases.sizes(config)
    if target.major == 9:
        return f"two_cta is for sm_100a and sm_103a, not {target}: use false"
    if config["layout"] != "dense" or config["causal"] or config["window"] or config["decode"]:
        return "two_cta is for the dense layout without causal, window and decode: use false"
    if (size, size_v) not in ((128, 128), (192, 128)) or 128 % group:
        return (
            "two_cta is for a head_dim of 128, or 192 with values of 128, and heads_per_kv that divide 128: use false"
        )
    return None


def compile_forward(config: Mapping[str, Any]) -> Any:
    """Run the library's forward pass for a config, and return the object that it compiled."""
    library.FLASH.switch(
        "flash_attn.cute.utils",
        _fa_disable_2cta_enabled=not config.get("two_cta"),
        # The library looks at the CUDA version that torch was built with, which is not the one that compiles here.
        _fa_disable_2cta_cuda12=False,
        _fa_clc_enabled=False,
    )
    pack = config.get("pack", True) and config["heads_per_kv"] > 1
    on_hopper = Target.parse(os.environ["CUTE_DSL_ARCH"]).major == 9
    tiles = forward_tiles.Tiles.of(config) if on_hopper and forward_tiles.chosen(config) else None
    with contextlib.ExitStack() as stack:
        if tiles is not None:
            _replace(stack, tiles, 1 if pack else config["heads_per_kv"])
        (compiled,) = library.run(
            "_flash_attn_fwd",
            lambda: {
                **_tensors(config),
                **_choices(config, tiles),
                "pack_gqa": pack,
                "num_splits": 1,
                "disable_scheduler_metadata": True,
            },
            "_flash_attn_fwd",
        )
    return compiled


def _choices(config: Mapping[str, Any], tiles: forward_tiles.Tiles | None) -> dict[str, Any]:
    """What the library takes of what is chosen."""
    if tiles is None:
        keys = config.get("keys_tile")
        return {"tile_mn": None if keys is None else (_QUERIES_TILE, keys)}
    return {
        "tile_mn": (tiles.queries, tiles.keys),
        "mma_pv_is_rs": tiles.in_registers,
        "intra_wg_overlap": config.get("overlap", True),
    }


def _replace(stack: contextlib.ExitStack, tiles: forward_tiles.Tiles, group: int) -> None:
    """Have the library take classes of this folder, where its own has no such choice."""
    from precast.kernels.adapters.attention import resident_device, tile_order_device

    kind = resident_device.kernel_class(tiles.stages, resident=tiles.resident)
    stack.enter_context(library.FLASH.replaced(library.INTERFACE, FlashAttentionForwardSm90=kind))
    if tiles.resident:
        orders = tile_order_device.orders(group)
        stack.enter_context(library.FLASH.replaced("flash_attn.cute.flash_fwd_sm90", **orders))


def _tensors(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the library's forward pass, which chooses the kind of kernel by their sizes: one query for each
    sequence for decoding, many otherwise."""
    group, size, size_v = cases.sizes(config)
    dtype, layout, heads = config["dtype"], config["layout"], group * _KV_HEADS
    queries, keys = (1 if config["decode"] else 4096), _KEYS
    tokens = (_BATCH * queries,) if cases.packed(config) else (_BATCH, queries)
    shapes = {"varlen": (_BATCH * keys,), "paged": (_BATCH * keys // (config["page"] or 1), config["page"])}
    kv = shapes.get(layout, (_BATCH, keys))

    def index(*shape: int) -> Any:
        return library.tensor(shape, "int32")

    return {
        "q": library.tensor((*tokens, heads, size), dtype),
        "k": library.tensor((*kv, _KV_HEADS, size), dtype),
        "v": library.tensor((*kv, _KV_HEADS, size_v), dtype),
        "cu_seqlens_q": index(_BATCH + 1) if cases.packed(config) else None,
        "cu_seqlens_k": index(_BATCH + 1) if layout == "varlen" else None,
        "max_seqlen_q": queries,
        "max_seqlen_k": keys,
        "seqused_k": index(_BATCH) if layout in ("cached", "paged") else None,
        "page_table": index(_BATCH, keys // config["page"]) if layout == "paged" else None,
        "causal": config["causal"],
        "window_size_left": 128 if config["window"] else None,
        "window_size_right": 128 if config["window"] and not config["causal"] else None,
        "learnable_sink": library.tensor((heads,), dtype) if config["sink"] else None,
        "return_lse": config["lse"],
    }


@kernel(
    op="attention",
    imports=[library.INTERFACE],
    targets=library.TARGETS,
    problems=cases.problems,
    inputs=cases.inputs,
    outputs=["out", "lse"],
    reference=cases.reference,
    tolerance=cases.tolerance,
    special_values=["zero", "denormal"],  # what is masked is not looked at, or it is, as the tiles have it
    cost=cases.cost,
    tile=forward_tiles.tile,
    peer=cases.peer,
    arguments=ARGUMENTS,
    speed_only=GRID,  # its persistent schedulers launch a block an SM, which take tiles in turn and wait for none
)
def attention(
    dtype: DType,
    head_dim: int,
    heads_per_kv: int = 1,
    causal: bool = False,
    head_dim_v: int | None = None,
    layout: Literal["dense", "cached", "varlen", "paged"] = "dense",
    page: int | None = None,
    window: bool = False,
    sink: bool = False,
    lse: bool = False,
    decode: bool = False,
    two_cta: Tuned[bool] = False,
    pack: Tuned[bool] = True,
    keys_tile: Tuned[int | None] = None,
    queries_tile: Tuned[int | None] = None,
    stages: Tuned[int | None] = None,
    overlap: Tuned[bool] = True,
    resident: Tuned[bool] = False,
) -> Any:
    """Attention, with ``heads_per_kv`` query heads for each key head; ``causal`` aligns the last query to the last key.

    Call it by name: ``kernel(q=q, k=k, v=v, out=out, softmax_scale=scale)``, and what else the config has. Layouts:

    - ``dense``: ``q`` ``[batch, queries, heads, head_dim]``; ``k``, ``v`` ``[batch, keys, kv_heads, ..]``; ``out`` as
      ``q``, with ``head_dim_v``.
    - ``cached``: the same, and ``seqused_k`` ``[batch]``: how many of the keys each sequence has.
    - ``varlen``: ``[tokens, heads, ..]``, sequences one after the other; ``cu_seqlens_q`` and ``cu_seqlens_k``
      ``[batch + 1]`` say where each begins, and where the last one ends.
    - ``paged``: ``q`` and ``out`` as in ``varlen`` with ``cu_seqlens_q``; ``k``, ``v`` ``[pages, page, kv_heads, ..]``,
      ``page_table`` ``[batch, most]`` with the numbers of each sequence's pages, and ``seqused_k``.

    All indices are int32. Strides are free, but the last is 1 and the others keep heads aligned to 16 bytes. With
    ``window``, a query sees ``window_left`` keys before its own and ``window_right`` after (0 where causal); with
    ``sink``, ``sink`` ``[heads]`` of ``dtype`` joins each softmax; with ``lse``, ``lse`` of float32 takes the logarithm
    of each sum of exponents, ``[batch, heads, queries]`` or, packed, ``[heads, tokens]``. ``decode`` is for at most
    ``128 // heads_per_kv`` queries in each sequence. sm_100a also takes ``max_seqlen_q``, the most queries that a
    sequence has. ``pack`` puts the query heads that share a key head into one tile: best for few queries.
    ``keys_tile`` is how many keys are taken at a time, or None for FlashAttention's own choice. On sm_90a only:
    ``queries_tile`` is the same of queries (192 is best for many), ``stages`` how many tiles of keys are on their way,
    ``overlap`` has a group of warps score the next keys while it weights the last, and with ``resident`` a block stays
    and takes tile after tile: best for many short sequences.
    """
    config = {
        "dtype": dtype, "head_dim": head_dim, "heads_per_kv": heads_per_kv, "causal": causal,
        "head_dim_v": head_dim_v, "layout": layout, "page": page, "window": window, "sink": sink, "lse": lse,
        "decode": decode,
    }  # fmt: skip
    tuned = {
        "two_cta": two_cta, "pack": pack, "keys_tile": keys_tile, "queries_tile": queries_tile, "stages": stages,
        "overlap": overlap, "resident": resident,
    }  # fmt: skip
    return compile_forward({**config, **tuned})
