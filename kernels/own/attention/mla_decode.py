"""``mla_decode``: attention of one new token of each sequence to a paged cache of latents (DeepSeek's MLA).

A latent is the key of every head, and its first 512 elements are the value of every head. The products that make
queries for latents, and results out of them, run before and after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.attention.latent import VALUES, WIDTH, Latent
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_SCALE = 192**-0.5  # of DeepSeek V3: a head has 128 elements without a position, and 64 with one
_PEAKED = 2.0  # a spread of scores with which few latents dominate, so that results are not all near zero
_SPARE = 3  # pages that no sequence has
_UNUSED = -1  # entries of the table after a sequence's last page


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"dtype": "bfloat16", "page": 64, "lse": False}
    >>> supports({**config, "keys": 128}, Target.parse("sm_90a"))
    'keys is 128: shared memory holds 0 stages of so many latents, and 2 are needed; use 64 or fewer'
    """
    return configs.not_among(config, "dtype", ("bfloat16", "float16")) or latent_of(config).refusal()


def latent_of(config: Config) -> Latent:
    """How a config divides the work."""
    return Latent(keys=configs.integer(config, "keys"), page=configs.integer(config, "page"))


def problems(config: Config) -> Sequence[Problem]:
    """No sequence, one, lengths around a page, heads that fill no tile, few and many splits, and the sizes of a model.

    Sequences are of so many ``kinds``: one, and all are as long as ``keys``; more, and some are shorter, among them
    one of none. ``padding`` is the distance between rows.
    """
    page = configs.integer(config, "page")
    shapes = [(0, 16, page, 1, 1, 0), (1, 16, 1, 1, 1, 0), (1, 128, page - 1, 1, 1, 8), (3, 16, page + 1, 2, 1, 0)]
    shapes += [(9, 7, 3 * page, 1, 8, 24), (9, 65, 2 * page + 5, 4, 8, 0), (1, 16, 1031, 5, 1, 0)]
    shapes += [(1, 128, 4096, 32, 1, 0), (31, 16, 999, 3, 8, 8), (128, 16, 4096, 1, 1, 0), (128, 128, 4096, 1, 1, 0)]
    names = ("batch", "heads", "keys", "splits", "kinds", "padding")
    return [dict(zip(names, shape, strict=True)) for shape in shapes]


def large(config: Config) -> Problem:
    """A cache of more elements than 32 bits count.

    >>> large({"page": 64})["keys"] * 576 > 2**31
    True
    """
    keys = (1 << 31) // WIDTH + 3 * configs.integer(config, "page") + 5
    return {"batch": 1, "heads": 16, "keys": keys, "splits": 64, "kinds": 1, "padding": 0}


def lengths(config: Config, problem: Problem) -> list[int]:
    """How many latents each sequence has.

    >>> lengths({"page": 64}, {"batch": 8, "keys": 200, "kinds": 8})
    [200, 0, 1, 63, 64, 65, 101, 199]
    """
    keys, page = problem["keys"], configs.integer(config, "page")
    kinds = [keys, 0, 1, page - 1, page, page + 1, keys // 2 | 1, keys - 1][: problem["kinds"]]
    return [min(keys, kinds[i % len(kinds)]) for i in range(problem["batch"])]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name. The cache after the end of a sequence, and in pages of no sequence, is NaN."""
    import torch

    batch, heads, splits = (problem[name] for name in ("batch", "heads", "splits"))
    pad = problem.get("padding", 0)
    dtype, page, used = str(config["dtype"]), configs.integer(config, "page"), lengths(config, problem)
    counts = [-(-length // page) for length in used]
    generator = torch.Generator(device="cpu").manual_seed(seed)
    order = torch.randperm(sum(counts) + _SPARE, generator=generator).to(torch.int32)
    table = torch.full((batch, max([*counts, 1])), _UNUSED, dtype=torch.int32)
    cache = torch.full((len(order), page, WIDTH + pad), math.nan, dtype=to_torch(dtype), device=device)[..., :WIDTH]
    for i, (count, length) in enumerate(zip(counts, used, strict=True)):
        own, order = order[:count], order[count:]
        table[i, :count] = own
        values = tensors.normal((count * page, WIDTH), dtype, device=device, seed=seed + 1 + i)
        values[length:] = math.nan
        cache[own.long().to(device)] = values.view(count, page, WIDTH)
    parts = splits if splits > 1 else 0
    return {
        "q": tensors.normal((batch, heads, WIDTH + pad), dtype, device=device, seed=seed).mul_(_PEAKED)[..., :WIDTH],
        "cache": cache,
        "page_table": table.to(device),
        "seqused_k": torch.tensor(used, dtype=torch.int32, device=device),
        "out": tensors.empty((batch, heads, VALUES + pad), dtype, device=device)[..., :VALUES],
        "lse": tensors.empty((batch, heads), "float32", device=device) if config["lse"] else None,
        "out_parts": tensors.empty((parts, batch, heads, VALUES), "float32", device=device),
        "lse_parts": tensors.empty((parts, batch, heads), "float32", device=device),
        "softmax_scale": _SCALE,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Attention in float64, a sequence at a time; one without latents gives zeros."""
    import torch

    out = torch.zeros_like(inputs["out"], dtype=torch.float64)
    lse = torch.full(out.shape[:2], -math.inf, dtype=torch.float64, device=out.device)
    for i, length in enumerate(inputs["seqused_k"].tolist()):
        if length:
            latents = _latents(config, inputs, i, length).double()
            scores = (inputs["q"][i].double() @ latents.T).mul_(inputs["softmax_scale"])
            lse[i] = scores.logsumexp(dim=-1)
            out[i] = scores.softmax(dim=-1) @ latents[:, :VALUES]
    return {"out": out, "lse": lse}


def _latents(config: Config, inputs: Mapping[str, Any], sequence: int, length: int) -> Any:
    """The latents of a sequence, in order."""
    pages = inputs["page_table"][sequence, : -(-length // configs.integer(config, "page"))].long()
    return inputs["cache"][pages].flatten(0, 1)[:length]


def tolerance(config: Config) -> Tolerance:
    """Weights are rounded to the stored dtype before they multiply the values, as in torch's flash attention.

    Each is off by half a unit in its last place at most, and values by which they are multiplied are below 4 in the
    mean; the products have both signs and may cancel. The result is rounded once more.
    """
    unit = 2.0**-8 if config["dtype"] == "bfloat16" else 2.0**-11
    return Tolerance(rtol=unit, atol=2.0 * unit)


def cost(config: Config, problem: Problem) -> Cost:
    """Two products of every head with every latent; latents, queries and results once each.

    >>> problem = {"batch": 1, "heads": 16, "keys": 1000, "kinds": 1}
    >>> cost({"dtype": "bfloat16", "page": 64}, problem)
    Cost(flops=34816000, bytes=1186816)
    """
    keys, rows = sum(lengths(config, problem)), problem["batch"] * problem["heads"]
    elements = keys * WIDTH + rows * (WIDTH + VALUES)
    return Cost(2 * keys * problem["heads"] * (WIDTH + VALUES), elements * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's two products and softmax, of sequences of one length whose latents are already contiguous."""
    import torch

    used = inputs["seqused_k"].tolist()
    if not used or len(set(used)) > 1 or not used[0]:
        return {}
    latents = torch.stack([_latents(config, inputs, i, length) for i, length in enumerate(used)])
    q, keys, values, scale = inputs["q"], latents.transpose(1, 2), latents[..., :VALUES], inputs["softmax_scale"]

    def products() -> Any:
        return torch.bmm(torch.bmm(q, keys).mul_(scale).softmax(dim=-1), values)

    return {"torch, latents gathered before": products}


@kernel(
    op="mla_decode",
    targets=["sm_90a"],
    outputs=["out", "lse"],
    workspace=["out_parts", "lse_parts"],
    special_values=["nan", "zero", "denormal"],  # infinity times a weight that is zero in float32 only
)
def mla_decode(dtype: DType, page: int = 64, lse: bool = False, keys: Tuned[int] = 64) -> Any:
    """Attention of one token a sequence to latents: ``kernel(q=q, cache=cache, page_table=page_table,
    seqused_k=seqused_k, out=out, out_parts=out_parts, lse_parts=lse_parts, softmax_scale=192**-0.5)``.

    ``q`` is ``[batch, heads, 576]``, the cache ``[pages, page, 576]``, and ``out`` ``[batch, heads, 512]``, all of
    ``dtype``. Sequence ``i`` has ``seqused_k[i]`` latents, in the pages ``page_table[i]`` (``[batch, most pages]``);
    both are int32. Entries of the table after its last page are not read, nor checked are those before. A sequence
    without latents gives zeros. Any number of heads; they share what is read in groups of 64. All strides but the last,
    which is 1, are free: multiples of 8 for rows, which are aligned to 16 bytes. With ``lse``, ``lse`` ``[batch,
    heads]`` of float32 takes the logarithms of the sums of weights.

    A long sequence of a small batch is split among blocks: pass ``out_parts`` ``[splits, batch, heads, 512]`` and
    ``lse_parts`` ``[splits, batch, heads]`` of float32, whose contents are of no account. ``splits`` of 0 or 1 reads
    each sequence in one piece. Where ``batch * ceil(heads / 64)`` blocks leave multiprocessors idle, as many splits as
    fill them once are fastest, of 128 latents each or more: 32 for one sequence of 4096.
    """
    from precast.kernels.own.attention.device.mla_decode import compile_mla_decode

    return compile_mla_decode(Latent(keys=keys, page=page), to_cutlass(dtype), lse=lse)
