"""FlashAttention-4's forward pass as programs call it: with a latent beside the keys, and in FP8."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from precast.kernels.authoring.composition import Part
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target


def part(config: Config, target: Target) -> Part | None:
    """Less of what was recorded, with the same heads; None for calls with other arguments."""
    call = _call(config)
    others = ("block_sparse_tensors", "learnable_sink", "window_size_left", "window_size_right", "score_mod")
    if any(call[name] is not None for name in others) or call["num_splits"] != 1 or call["return_lse"]:
        return None
    return Part(
        problems=[{"queries": 3, "keys": 3}, {"queries": 5, "keys": 200}],
        inputs=inputs,
        outputs=("mO",),
        reference=reference,
        tolerance=tolerance,
    )


def _call(config: Config) -> dict[str, Any]:
    call: Any = config["call"]
    return dict(call)


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """One sequence, in tensors of the recorded dtypes and widths."""
    import torch

    call = _call(config)
    draw = torch.Generator(device="cpu").manual_seed(seed)
    sizes = {"q": problem["queries"], "k": problem["keys"], "v": problem["keys"], "qv": problem["queries"]}

    def recorded(name: str) -> Any:
        _, dtype, shape, *_ = call[name]
        values = torch.randn(1, sizes[name], *shape[2:], generator=draw).to(getattr(torch, dtype)).to(device)
        return values.view(torch.uint8) if dtype.startswith("float8") else values

    q, k, v = recorded("q"), recorded("k"), recorded("v")
    width = q.shape[-1] + (0 if call["qv"] is None else v.shape[-1])
    values = {"mQ": q, "mK": k, "mV": v, "mO": torch.zeros(*q.shape[:-1], v.shape[-1], device=device).bfloat16()}
    if call["qv"] is not None:
        return {**values, "mQv": recorded("qv"), "softmax_scale": width**-0.5}
    return {**values, "softmax_scale": width**-0.5, "aux_data": (None, None), "max_seqlen_q": problem["queries"]}


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """In float64; the last query has all keys."""
    import torch

    call = _call(config)

    def wide(name: str) -> Any:
        tensor = values[name][0]
        return (tensor.view(torch.float8_e4m3fn) if tensor.dtype == torch.uint8 else tensor).double()

    group = values["mQ"].shape[2] // values["mK"].shape[2]
    k, v = (wide(name).repeat_interleave(group, dim=1) for name in ("mK", "mV"))
    scores = torch.einsum("qhd,khd->hqk", wide("mQ"), k)
    if call["qv"] is not None:
        scores = scores + torch.einsum("qhd,khd->hqk", wide("mQv"), v)
    scores = scores * values["softmax_scale"]
    if call["causal"]:
        queries, keys = scores.shape[1:]
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu(1 + keys - queries)
        scores = scores.masked_fill(hidden, -math.inf)
    return {"mO": torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), v).unsqueeze(0)}


def tolerance(config: Config) -> Tolerance:
    """Probabilities in the dtype of the values, whose errors are not all of one sign."""
    error = 2.0**-4 if str(_call(config)["v"][1]).startswith("float8") else 2.0**-8
    return Tolerance(rtol=error, atol=error)
