"""``flashinfer.fmha``: causal attention of sequences behind one another, with heads of 192 and 128, in FP8."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from precast.kernels.authoring import configs
from precast.kernels.authoring.composition.part import Part
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_PROBABILITY_ERROR = 2.0**-4  # of float8_e4m3fn, of which the probabilities are


def part(config: Config, target: Target) -> Part | None:
    """One sequence, and two, in a block of keys and in two; None for what the manifests do not have."""
    if not config["with_lse"] or config["enable_sink"] or config["enable_skip_softmax"] or not config["is_causal"]:
        return None
    return Part(
        problems=[{"queries": q, "keys": k, "more": more} for q, k, more in ((5, 5, 0), (2, 9, 3), (33, 130, 8))],
        inputs=inputs,
        outputs=("o_tensor", "lse_tensor"),
        reference=reference,
        tolerance=tolerance,
    )


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """A sequence of so many queries and keys, and a second one with ``more`` of both."""
    import torch

    heads, key_heads = configs.integer(config, "num_qo_heads"), configs.integer(config, "num_kv_heads")
    width, out_width = configs.integer(config, "head_dim"), configs.integer(config, "head_dim_v")
    more = problem["more"]
    queries, keys = [problem["queries"]] + [more] * bool(more), [problem["keys"]] + [more] * bool(more)
    draw = torch.Generator(device="cpu").manual_seed(seed)

    def rows(count: int, groups: int, size: int, dtype: str) -> Any:
        values = torch.randn(1, count, key_heads, groups, size, generator=draw)
        return values.to(to_torch(str(config[dtype]))).to(device)

    def ends(lengths: list[int]) -> Any:
        return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32).to(device)

    group, total = heads // key_heads, sum(queries)
    sizes = (len(queries), max(queries), total, max(keys), heads, key_heads, width, out_width)
    scale = 1.0 / math.sqrt(width)
    return {
        "q_tensor": rows(total, group, width, "qk_dtype"),
        "k_tensor": rows(sum(keys), 1, width, "qk_dtype"),
        "v_tensor": rows(sum(keys), 1, out_width, "v_dtype"),
        "o_tensor": rows(total, group, out_width, "out_dtype"),
        "problem_size": sizes,
        "cum_seqlen_q": ends(queries),
        "cum_seqlen_k": ends(keys),
        "lse_tensor": torch.zeros(1, total, key_heads, group, device=device),
        "scale_softmax_log2": scale * math.log2(math.e),
        "scale_softmax": scale,
        "scale_output": 1.0,
        "window_size_right": 0,
        "use_pdl": bool(config["use_pdl"]),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Each sequence in float64, its last query with all keys; the logarithms of the sums have base two."""
    import torch

    out, logarithms = values["o_tensor"].double(), values["lse_tensor"].double()
    q, k, v = (values[name][0].double() for name in ("q_tensor", "k_tensor", "v_tensor"))
    starts, key_starts = values["cum_seqlen_q"].tolist(), values["cum_seqlen_k"].tolist()
    for at, to, key_at, key_to in zip(starts, starts[1:], key_starts, key_starts[1:], strict=False):
        scores = torch.einsum("qhgd,khd->hgqk", q[at:to], k[key_at:key_to, :, 0]) * values["scale_softmax"]
        hidden = torch.ones(to - at, key_to - key_at, dtype=torch.bool, device=q.device)
        hidden = hidden.triu(diagonal=1 + (key_to - key_at) - (to - at))
        scores = scores.masked_fill(hidden, -math.inf)
        out[0, at:to] = torch.einsum("hgqk,khd->qhgd", scores.softmax(dim=-1), v[key_at:key_to, :, 0])
        logarithms[0, at:to] = scores.logsumexp(dim=-1).permute(2, 0, 1) * math.log2(math.e)
    return {"o_tensor": out * values["scale_output"], "lse_tensor": logarithms}


def tolerance(config: Config) -> Tolerance:
    """Probabilities of FP8, whose errors are not all of one sign."""
    return Tolerance(rtol=_PROBABILITY_ERROR, atol=_PROBABILITY_ERROR)
