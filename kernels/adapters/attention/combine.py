"""``attention_combine``: combines the partial results of ``attention_split``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.attention import library
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

ARGUMENTS = {"mO_partial": "out_partial", "mLSE_partial": "lse_partial", "mO": "out", "mLSE": "lse"}
_MOST = (32, 64, 128, 256)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built for a target, or None."""
    reason = library.refusal(config, target)
    if reason is None and config["most"] not in _MOST:
        reason = f"most is {config['most']}: use one of {', '.join(map(str, _MOST))}"
    if reason is None and (configs.integer(config, "heads") > 0) != (config["layout"] == "varlen"):
        reason = (
            f"heads is {config['heads']}: give their number with layout varlen, which compiles it in, and only there"
        )
    return reason


def problems(config: Config) -> Sequence[Problem]:
    """One part, a few, an odd number, and the largest number; single queries and many."""
    most = configs.integer(config, "most")
    shapes = [(1, 1, 1, 1), (3, 2, 17, 3), (most - 1, 5, 1, 8), (most, 2, 33, 4), (8, 64, 1, 32)]
    fixed = configs.integer(config, "heads")
    return [{"splits": s, "batch": b, "queries": q, "heads": fixed or h} for s, b, q, h in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Parts whose weights differ by much, some with a weight of zero."""
    import torch

    splits, batch, queries, heads = (problem[name] for name in ("splits", "batch", "queries", "heads"))
    varlen, size = config["layout"] == "varlen", configs.integer(config, "head_dim")
    tokens = (batch * queries,) if varlen else (batch, queries)
    by_head = (*tokens[:-1], heads, tokens[-1])
    weights = tensors.normal((splits, *by_head), "float32", device=device, seed=seed + 1).mul_(3.0)
    weights[1::3] = -torch.inf
    return {
        "out_partial": tensors.normal((splits, *tokens, heads, size), "float32", device=device, seed=seed),
        "lse_partial": weights.transpose(-1, -2),
        "out": tensors.empty((*tokens, heads, size), str(config["dtype"]), device=device),
        "lse": tensors.empty(by_head, "float32", device=device).transpose(-1, -2) if config["lse"] else None,
        "cu_seqlens": torch.arange(0, batch * queries + 1, queries, dtype=torch.int32, device=device)
        if varlen
        else None,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The weighted sum in float64."""
    logs = inputs["lse_partial"].double()
    weights = logs.softmax(dim=0).unsqueeze(-1)
    return {"out": (weights * inputs["out_partial"].double()).sum(dim=0), "lse": logs.logsumexp(dim=0)}


def tolerance(config: Config) -> Tolerance:
    """A weighted sum in float32, of values of both signs, then the rounding to the stored dtype."""
    return Tolerance(rtol=rounding.tolerance(str(config["dtype"]), 1e-5).rtol, atol=2e-5)


def cost(config: Config, problem: Problem) -> Cost:
    """Every part read once, the result written once."""
    size = configs.integer(config, "head_dim")
    rows = problem["batch"] * problem["queries"] * problem["heads"]
    memory = rows * (problem["splits"] * (size + 1) * 32 + size * bits(str(config["dtype"])))
    return Cost(2 * rows * problem["splits"] * size, memory // 8)


@kernel(
    op="attention_combine",
    imports=[library.INTERFACE],
    targets=library.TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out", "lse"],
    reference=reference,
    tolerance=tolerance,
    special_values=["zero", "denormal"],  # a maximum drops NaN
    cost=cost,
    arguments=ARGUMENTS,
)
def attention_combine(
    dtype: DType,
    head_dim: int,
    layout: Literal["dense", "varlen"] = "dense",
    heads: int = 0,
    lse: bool = False,
    most: int = 32,
) -> Any:
    """Combine the parts of a split attention: ``kernel(out_partial=.., lse_partial=.., out=..)``, and ``lse`` if set.

    ``out_partial`` is ``[splits, batch, queries, heads, head_dim]`` and ``lse_partial`` ``[splits, batch, queries,
    heads]``, both of float32, the latter with consecutive queries next to each other in memory: pass what
    ``attention_split`` wrote, its last two dimensions transposed. ``out`` is ``[batch, queries, heads, head_dim]`` of
    ``dtype``, and ``lse`` ``[batch, queries, heads]`` of float32, laid out like ``lse_partial``. At most ``most``
    splits. With ``varlen``, ``batch`` and ``queries`` are one dimension, the tokens, ``cu_seqlens`` ``[batch + 1]`` of
    int32 says where each sequence begins, and the kernel is for one number of query heads, ``heads``: called with
    another number, it silently leaves results unwritten.
    """
    splits, batch, queries, heads = most, 2, 64, heads or 8
    tokens = (batch * queries,) if layout == "varlen" else (batch, queries)

    def arguments() -> dict[str, Any]:
        by_head = (*tokens[:-1], heads, tokens[-1])
        total = library.tensor(by_head, "float32").transpose(-1, -2) if lse else None
        return {
            "out_partial": library.tensor((splits, *tokens, heads, head_dim), "float32"),
            "lse_partial": library.tensor((splits, *by_head), "float32").transpose(-1, -2),
            "out": library.tensor((*tokens, heads, head_dim), dtype),
            "lse": total,
            "cu_seqlens": library.tensor((batch + 1,), "int32") if layout == "varlen" else None,
        }

    (compiled,) = library.run("_flash_attn_fwd_combine", arguments, "_flash_attn_fwd_combine")
    return compiled
