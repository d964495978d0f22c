"""``moe_permute``: the rows of tokens copied to where their experts have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Cost, Problem, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.moe import routing
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DTYPES = ("bfloat16", "float16", "float8_e4m3fn")
_THREADS = (64, 128, 256, 512)
_UNROLL = (1, 2, 4)
_MOST = 64  # choices of a token: a thread holds its rows in registers
_EXPERTS = 32  # of problems


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"dtype": "bfloat16", "hidden": 100, "topk": 8, "block": None, "threads": 128, "unroll": 1}
    >>> supports(config, Target.parse("sm_90a"))
    'hidden is 100: use a multiple of 8, which are 16 bytes of bfloat16'
    """
    if reason := refusal(config, _DTYPES):
        return reason
    block = config["block"]
    if block is not None and (not isinstance(block, int) or block < 1 or configs.integer(config, "hidden") % block):
        return f"block is {block}, which does not divide hidden {config['hidden']}: use 128, or None without scales"
    return None


def refusal(config: Config, dtypes: Sequence[str]) -> str | None:
    """What ``moe_permute`` and ``moe_finalize`` refuse alike."""
    for key, allowed in (("dtype", dtypes), ("threads", _THREADS), ("unroll", _UNROLL)):
        if reason := configs.not_among(config, key, allowed):
            return reason
    if not 1 <= configs.integer(config, "topk") <= _MOST:
        return f"topk is {config['topk']}: use 1 to {_MOST}"
    vector, hidden = 128 // bits(str(config["dtype"])), configs.integer(config, "hidden")
    if hidden < vector or hidden % vector:
        return f"hidden is {hidden}: use a multiple of {vector}, which are 16 bytes of {config['dtype']}"
    return None


def problems(config: Config) -> Sequence[Problem]:
    """No token, one, a few with padded rows, in one segment and in one for each expert, and many tokens last."""
    return cases(configs.integer(config, "hidden"))


def cases(hidden: int) -> Sequence[Problem]:
    """The problems of ``moe_permute`` and ``moe_finalize``, which have the same sizes."""
    many = max(64, (1 << 24) // hidden)
    experts = _EXPERTS - 1
    shapes = [(0, 0, 1), (1, 0, 1), (3, 16, experts), (17, 16, 1), (131, 48, experts), (257, 0, experts), (many, 0, 1)]
    return [{"tokens": tokens, "padding": padding, "segments": segments} for tokens, padding, segments in shapes]


def places(problem: Problem, topk: int, *, device: Any, seed: int) -> tuple[int, int, Any]:
    """Segments, rows of a segment, and the rows of a problem's entries. The entries of one expert are dropped."""
    tokens, masked = problem["tokens"], problem.get("segments", 1) > 1
    ids = routing.routes(tokens, topk, _EXPERTS, device=device, seed=seed)
    local_experts = _EXPERTS - 1
    most = max(1, tokens) if masked else tokens * topk
    capacity = local_experts * most if masked else most
    routes = routing.sort(ids, 0, experts=local_experts, align=1, masked=masked, capacity=capacity)
    return (local_experts if masked else 1), most, routes.rows


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name; None for the scales where this config is without them."""
    dtype, hidden, tokens = str(config["dtype"]), configs.integer(config, "hidden"), problem["tokens"]
    segments, most, rows = places(problem, configs.integer(config, "topk"), device=device, seed=seed)
    pad, block = problem.get("padding", 0), config["block"]
    x_scale = out_scale = None
    if block is not None:
        assert isinstance(block, int)
        groups = hidden // block
        x_scale = tensors.normal((groups, tokens), "float32", device=device, seed=seed + 2, row_stride=tokens + pad)
        out_scale = tensors.normal((segments * groups, most), "float32", device=device, seed=seed + 3)
        out_scale = out_scale.view(segments, groups, most)
    apart = 1 if pad else 0  # rows between the segments
    out = tensors.normal((segments, most + apart, hidden + pad), "float32", device=device, seed=seed + 1)
    return {
        "x": tensors.normal((tokens, hidden), dtype, device=device, seed=seed, row_stride=hidden + pad),
        "x_scale": x_scale,
        "rows": rows,
        "out": out.to(to_torch(dtype))[:, :most, :hidden],
        "out_scale": out_scale,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """An indexed copy in torch, beside what was there."""
    x, rows, out = inputs["x"], inputs["rows"].long(), inputs["out"]
    mine, row = rows.ge(0).nonzero()[:, 0], rows[rows >= 0]
    segment, within = row // max(1, out.shape[1]), row % max(1, out.shape[1])
    moved = out.double()
    moved[segment, within] = x[mine].double()
    results = {"out": moved}
    if inputs["x_scale"] is not None:
        scales = inputs["out_scale"].clone()
        scales.transpose(1, 2)[segment, within] = inputs["x_scale"].T[mine]
        results["out_scale"] = scales
    return results


def cost(config: Config, problem: Problem) -> Cost:
    """No operations; each token read once, and written for each choice.

    >>> cost({"dtype": "bfloat16", "hidden": 8, "topk": 2, "block": None}, {"tokens": 10})
    Cost(flops=0, bytes=560)
    """
    tokens, topk, hidden = problem["tokens"], configs.integer(config, "topk"), configs.integer(config, "hidden")
    row = hidden * bits(str(config["dtype"])) // 8
    if isinstance(config["block"], int):
        row += hidden // config["block"] * 4
    return Cost(0, tokens * ((1 + topk) * row + 4 * topk))


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's gathering of rows, where they are one matrix and none was dropped: no work of the choice of rows."""
    x, rows, out = inputs["x"], inputs["rows"], inputs["out"]
    if out.shape[0] != 1 or config["block"] is not None or config["dtype"] == "float8_e4m3fn" or not x.is_contiguous():
        return {}
    import torch

    flat = rows.flatten()
    source = torch.zeros(out.shape[1], dtype=torch.int64, device=x.device)
    source[flat[flat >= 0].long()] = flat.ge(0).nonzero()[:, 0] // rows.shape[1]
    kept = int(flat.ge(0).sum())
    return {"torch.index_select": lambda: torch.index_select(x, 0, source[:kept], out=out[0, :kept])}


@kernel(
    op="moe_permute",
    targets=["sm_90+"],
    outputs=["out", "out_scale"],
    in_place=["out", "out_scale"],
    special_values=["nan", "infinity", "zero", "denormal"],
)
def moe_permute(
    dtype: DType,
    hidden: int,
    topk: int,
    block: int | None = None,
    threads: Tuned[int] = 128,
    unroll: Tuned[int] = 2,
) -> Any:
    """``moe_permute(x, x_scale, rows, out, out_scale)``: copies each token's row to the rows of its choices.

    ``x`` is ``[tokens, hidden]``, and ``rows`` ``[tokens, topk]`` what ``moe_sort`` found: a negative row is none.
    ``out`` ``[segments, rows, hidden]`` is one segment in the contiguous layout, and one for each expert in the masked
    one: row ``r`` is row ``r % rows`` of segment ``r // rows``, and one that is beyond the last is left out. What no
    token goes to stays as it was.

    With ``block``, rows have a scale in float32 for each ``block`` of their values, of all tokens side by side as TMA
    wants them: ``x_scale`` is ``[hidden / block, tokens]``, and ``out_scale`` ``[segments, hidden / block, rows]``.
    Without, pass None for both. All strides but the last are free, and keep rows aligned to 16 bytes; of scales, to 4.
    """
    from precast.kernels.own.moe.device.moe_permute import compile_moe_permute

    return compile_moe_permute(to_cutlass(dtype), hidden, topk, block, threads, unroll)
