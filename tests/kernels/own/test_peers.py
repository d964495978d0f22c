"""What torch has for the same computes the same: otherwise a ratio to it says nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from tests.helpers.kernels.stand_in import full

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


@pytest.mark.parametrize(("op", "config", "problem", "names"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_a_peer_computes_what_the_reference_does(
    op: str, config: dict[str, Any], problem: dict[str, int], names: tuple[str, ...]
) -> None:
    declaration = declaration_of(load(find(op)))
    assert declaration.inputs and declaration.reference and declaration.peer
    config = full(op, config)
    inputs = declaration.inputs(config, problem, device="cpu", seed=3)
    kept = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    expected = declaration.reference(config, kept)
    for run in declaration.peer(config, inputs).values():
        made = run()
        found = dict(zip(names, made if isinstance(made, tuple) else (made,), strict=True))
        for name in names:
            if name:
                # What was dropped of a gathering has no row in what torch makes of it.
                wanted = (
                    expected[name].reshape(-1, expected[name].shape[-1])[: len(found[name])]
                    if op == "moe_permute"
                    else expected[name]
                )
                error = (found[name].double() - wanted.double()).abs().max()
                assert error <= 0.07 * wanted.double().abs().max(), name
    strided = declaration.inputs(config, {**problem, "padding": 16}, device="cpu", seed=3)
    for run in declaration.peer(config, strided).values():
        run()  # or there is none
