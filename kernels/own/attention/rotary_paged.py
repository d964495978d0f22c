"""``rotary_paged``: rotary position embedding of queries and keys, with keys and values written into a paged cache.

It runs between the product that makes queries, keys and values and the attention: one launch for each layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.attention.heads import VECTOR, Heads
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_FP8 = "float8_e4m3fn"
_STEP = 2 * VECTOR  # of heads: a lane takes two vectors
_WARP = 32
_THREADS = (64, 128, 256, 512)
_SCALES = (1 / 16, 1 / 8)  # of keys and values, in problems
_EPS = 1e-6
_SKIPPED = 5  # every fifth token of a problem has no slot


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"dtype": "bfloat16", "q_heads": 32, "kv_heads": 8, "head_dim": 128, "rotary_dim": 100}
    >>> config = {**config, "page": 16, "table_dtype": "float32", "index_dtype": "int64", "cache_dtype": None}
    >>> supports({**config, "norm": False, "threads": 128}, Target.parse("sm_90a"))
    'rotary_dim is 100: use a multiple of 16, from 16 to the head_dim of 128'
    """
    if reason := configs.not_among(config, "threads", _THREADS):
        return reason
    for key, among in _DTYPES.items():
        if config[key] not in among:
            return f"{key} is {config[key]}: use one of {', '.join(map(str, among))}"
    for key in ("q_heads", "kv_heads", "page"):
        if configs.integer(config, key) < 1:
            return f"{key} is {config[key]}: use a positive number"
    size, rotated = configs.integer(config, "head_dim"), heads_of(config).rotated
    if size < _STEP or size % _STEP:
        return f"head_dim is {size}: use a multiple of {_STEP}"
    if rotated < _STEP or rotated % _STEP or rotated > size:
        return f"rotary_dim is {rotated}: use a multiple of {_STEP}, from {_STEP} to the head_dim of {size}"
    lanes = size // _STEP
    if config["norm"] and (lanes & (lanes - 1) or lanes > _WARP):
        return f"norm is true, and head_dim is {size}: use 16, 32, 64, 128, 256 or 512, or norm each head before"
    return None


_DTYPES: dict[str, tuple[str | None, ...]] = {
    "dtype": ("bfloat16", "float16"),
    "table_dtype": ("float32", "bfloat16", "float16"),
    "index_dtype": ("int64", "int32"),
    "cache_dtype": (None, _FP8),
}


def heads_of(config: Config) -> Heads:
    """How threads share the heads of a config."""
    queries, keys, size, threads = (configs.integer(config, n) for n in ("q_heads", "kv_heads", "head_dim", "threads"))
    rotated = size if config["rotary_dim"] is None else configs.integer(config, "rotary_dim")
    return Heads(queries, keys, size, rotated, threads)


def problems(config: Config) -> Sequence[Problem]:
    """No token, one, a few with padded rows, and many."""
    shapes = [(0, 0), (1, 8), (3, 0), (17, 24), (131, 8), (4096, 0)]
    return [{"tokens": tokens, "padding": padding} for tokens, padding in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name; None where this config is without it. No two tokens have one slot, and some have none."""
    import torch

    heads, tokens, pad = heads_of(config), problem["tokens"], problem.get("padding", 0)
    dtype, page = str(config["dtype"]), configs.integer(config, "page")
    index = to_torch(str(config["index_dtype"]))
    generator = torch.Generator(device="cpu").manual_seed(seed)
    pages = -(-tokens // page) + 2
    slots = torch.randperm(pages * page, generator=generator)[:tokens]
    slots[_SKIPPED - 1 :: _SKIPPED] = -1
    reach = tokens + 7
    angles = tensors.normal((reach, heads.rotated // 2), "float32", device=device, seed=seed + 1).mul_(10.0)
    table = tensors.empty(
        (reach, heads.rotated), str(config["table_dtype"]), device=device, row_stride=heads.rotated + pad
    )
    table.copy_(torch.cat((angles.cos(), angles.sin()), dim=-1))
    columns, wide = (heads.queries + 2 * heads.keys) * heads.size, heads.queries * heads.size
    norm, scaled = bool(config["norm"]), config["cache_dtype"] is not None
    scales = [torch.tensor([scale], dtype=torch.float32, device=device) if scaled else None for scale in _SCALES]

    def weight(number: int) -> Any:
        return tensors.normal((heads.size,), dtype, device=device, seed=seed + number) if norm else None

    return {
        "qkv": tensors.normal((tokens, columns), dtype, device=device, seed=seed, row_stride=columns + pad),
        "cos_sin": table,
        "positions": torch.randint(0, reach, (tokens,), generator=generator).to(index).to(device),
        "slots": slots.to(index).to(device),
        "q": tensors.empty((tokens, wide), dtype, device=device, row_stride=wide + pad),
        "k_cache": _cache(config, heads, pages, page, pad, device, seed + 2),
        "v_cache": _cache(config, heads, pages, page, pad, device, seed + 3),
        "q_weight": weight(4),
        "k_weight": weight(5),
        "eps": _EPS if norm else None,
        "k_scale": scales[0],
        "v_scale": scales[1],
    }


def _cache(config: Config, heads: Heads, pages: int, page: int, pad: int, device: Any, seed: int) -> Any:
    """Pages that hold something; tokens are ``pad`` elements further apart than their heads are long."""
    values = tensors.normal((pages, page, heads.keys * heads.size + pad), "float32", device=device, seed=seed)
    whole = values.to(to_torch(str(config["cache_dtype"] or config["dtype"])))
    return whole[..., : heads.keys * heads.size].unflatten(-1, (heads.keys, heads.size))


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm and the rotation in float64, and the caches with what was in them elsewhere."""
    heads = heads_of(config)
    groups = inputs["qkv"].double().unflatten(-1, (heads.queries + 2 * heads.keys, heads.size))
    queries, keys, values = groups.split((heads.queries, heads.keys, heads.keys), dim=1)
    if config["norm"]:
        queries, keys = (
            _normal(x, inputs[name], inputs["eps"]) for x, name in ((queries, "q_weight"), (keys, "k_weight"))
        )
    table = inputs["cos_sin"].double()[inputs["positions"].long()].unsqueeze(1)
    cos, sin = table.chunk(2, dim=-1)
    queries, keys = (_turned(x, cos, sin, heads.rotated) for x in (queries, keys))
    results = {"q": queries.flatten(1)}
    for name, rows in (("k", keys), ("v", values)):
        cache = inputs[f"{name}_cache"].double()
        if config["cache_dtype"] is not None:
            rows = (rows / inputs[f"{name}_scale"].double()).clamp(-448.0, 448.0)
        slots = inputs["slots"].long()
        flat = cache.flatten(0, 1).clone()
        flat[slots[slots >= 0]] = rows[slots >= 0]
        results[f"{name}_cache"] = flat.view(cache.shape)
    return results


def _normal(x: Any, weight: Any, eps: float) -> Any:
    return x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * weight.double()


def _turned(x: Any, cos: Any, sin: Any, rotated: int) -> Any:
    import torch

    first, second = x[..., :rotated].chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, x[..., rotated:]), dim=-1)


def tolerance(config: Config) -> Tolerance:
    """Rounding to the stored dtype, after a sum of two products in float32, which may cancel.

    What is rotated is below 6 in size, and behind a norm below 6 times its weight, that is 36. Each product, and the
    sum, is off by ``2**-24`` of that; a norm by a little more.
    """
    size, arithmetic = (36.0, 1e-6) if config["norm"] else (6.0, 2.0**-24)
    stored = rounding.stored(str(config["dtype"]), 2 * arithmetic)
    return Tolerance(rtol=stored.rtol, atol=stored.atol + 3 * size * max(arithmetic, 2.0**-24), ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Three operations for each element that is rotated; everything read once and written once.

    >>> config = {"dtype": "bfloat16", "q_heads": 32, "kv_heads": 8, "head_dim": 128, "rotary_dim": None}
    >>> config = {**config, "threads": 128, "table_dtype": "float32", "index_dtype": "int64", "cache_dtype": None}
    >>> cost(config, {"tokens": 1})
    Cost(flops=15360, bytes=25104)
    """
    heads, tokens = heads_of(config), problem["tokens"]
    width, stored = bits(str(config["dtype"])), bits(str(config["cache_dtype"] or config["dtype"]))
    read = (heads.queries + 2 * heads.keys) * heads.size * width + heads.rotated * bits(str(config["table_dtype"]))
    written = heads.queries * heads.size * width + 2 * heads.keys * heads.size * stored
    rotated = (heads.queries + heads.keys) * heads.rotated
    return Cost(3 * rotated * tokens, tokens * (read + written + 2 * bits(str(config["index_dtype"]))) // 8)


@kernel(
    op="rotary_paged",
    targets=["sm_90+"],
    outputs=["q", "k_cache", "v_cache"],
    in_place=["k_cache", "v_cache"],
    special_values=["nan", "zero"],  # no denormal scale: its reciprocal is infinite
)
def rotary_paged(
    dtype: DType,
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    page: int,
    rotary_dim: int | None = None,
    norm: bool = False,
    cache_dtype: DType | None = None,
    table_dtype: DType = "float32",
    index_dtype: DType = "int64",
    threads: Tuned[int] = 128,
) -> Any:
    """Rotary embedding of queries and keys; keys and values go into a paged cache. Call it by name:
    ``kernel(qkv=qkv, cos_sin=cos_sin, positions=positions, slots=slots, q=q, k_cache=k_cache, v_cache=v_cache)``.

    ``qkv`` is ``[tokens, (q_heads + 2 * kv_heads) * head_dim]``: queries, keys, values, as one product makes them.
    ``q`` ``[tokens, q_heads * head_dim]`` takes the rotated queries, and may be the first columns of ``qkv``.
    ``cos_sin`` ``[positions, rotary_dim]`` of ``table_dtype`` has the cosines of a position, then its sines (as vLLM's
    ``cos_sin_cache``). The first ``rotary_dim`` elements of a head (by default all) are rotated, its first half with
    its second. ``positions`` and ``slots`` ``[tokens]`` are of ``index_dtype``. ``k_cache`` and ``v_cache`` are
    ``[pages, page, kv_heads, head_dim]``: a token goes to row ``slot % page`` of page ``slot // page``, or nowhere if
    its slot is negative. Positions and slots are not checked, and no two tokens may have one slot. All strides but
    the last, which is 1, are free multiples of 8, and rows are aligned to 16 bytes.

    With ``norm``, the heads of queries and keys are first divided by the root of their mean square, and multiplied by
    ``q_weight`` and ``k_weight`` ``[head_dim]`` (Qwen 3): pass these and ``eps``. With a ``cache_dtype`` of
    ``float8_e4m3fn``, pass ``k_scale`` and ``v_scale``, one float32 each on the device: what is stored is divided by
    these, and clamped to 448.
    """
    from precast.kernels.own.attention.device.rotary_paged import compile_rotary_paged

    config = {
        "q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head_dim, "rotary_dim": rotary_dim, "threads": threads,
    }  # fmt: skip
    return compile_rotary_paged(
        to_cutlass(dtype),
        to_cutlass(table_dtype),
        to_cutlass(index_dtype),
        to_cutlass(cache_dtype or dtype),
        heads_of(config),
        page,
        norm=norm,
        scaled=cache_dtype is not None,
    )
