"""Ops whose peers make several results: with a config, a problem, and the names of what a peer makes."""

from __future__ import annotations

from typing import Any

HALF = {"dtype": "bfloat16"}
ROWS = {"rows": 5, "padding": 0}
TOKENS = {"tokens": 6, "padding": 0, "segments": 1}
# The names of what a peer makes, in its order.
CASES: list[tuple[str, dict[str, Any], dict[str, int], tuple[str, ...]]] = [
    *[("act_and_mul", {**HALF, "width": 256, "activation": a}, ROWS, ("out",)) for a in ("silu", "gelu", "gelu_tanh")],
    ("fused_add_rmsnorm", {**HALF, "hidden": 256}, ROWS, ("residual", "out")),
    ("rmsnorm_fp8", {**HALF, "hidden": 256}, ROWS, ("", "out", "scale")),
    ("rmsnorm_fp8", {**HALF, "hidden": 256, "residual": True}, ROWS, ("residual", "out", "scale")),
    ("quantize_fp8", {**HALF, "width": 256, "block": "token"}, ROWS, ("out", "scale")),
    ("quantize_fp8", {**HALF, "width": 256, "block": 128}, ROWS, ("out", "scale")),
    ("dequantize_fp8", {**HALF, "width": 256, "block": "token"}, ROWS, ("out",)),
    ("dequantize_fp8", {**HALF, "width": 256, "block": 128}, ROWS, ("out",)),
    ("silu_and_mul_fp8", {**HALF, "width": 256}, ROWS, ("out", "scale")),
    ("moe_finalize", {**HALF, "hidden": 256, "topk": 3}, TOKENS, ("out",)),
    ("moe_permute", {**HALF, "hidden": 256, "topk": 3}, TOKENS, ("out",)),
    ("softmax", {**HALF, "width": 256}, ROWS, ("out",)),
    *[("reduce", {**HALF, "width": 256, "function": f}, ROWS, ("out",)) for f in ("sum", "mean", "max", "argmax")],
]
