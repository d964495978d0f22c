"""Peers compute what the kernels compute: each is called on the CPU and compared with the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import find, known_ops, load
from precast.loader.contract.format.config import complete
from tests.helpers.kernels.peer_cases import CASES

SAMPLES: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("scale", {"dtype": "float32"}, {"n": 1000}),
    ("scale", {"dtype": "float32", "rank": 2}, {"rows": 3, "columns": 50}),
    ("add", {"dtype": "float32"}, {"n": 1000}),
    *(
        ("apply", {"dtype": "float32", "function": function}, {"n": 1000})
        for function in ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "square")
    ),
    ("rmsnorm", {"dtype": "float32", "hidden": 256}, {"rows": 3}),
    ("layernorm", {"dtype": "float32", "hidden": 256}, {"rows": 3}),
    ("softmax", {"dtype": "float32", "width": 256}, {"rows": 3}),
    *(
        ("reduce", {"dtype": "float32", "width": 256, "function": function}, {"rows": 3})
        for function in ("sum", "mean", "max", "argmax")
    ),
    ("flashinfer.rmsnorm", {"dtype": "float32", "hidden": 256}, {"rows": 3}),
    ("flashinfer.fused_add_rmsnorm", {"dtype": "float32", "hidden": 256}, {"rows": 3}),
    ("gemm", {"dtype": "float32", "out_dtype": "float32"}, {"m": 5, "n": 16, "k": 24}),
    ("gemm", {"dtype": "float32", "out_dtype": "float32", "batched": True}, {"m": 5, "n": 16, "k": 24, "l": 2}),
    ("gemm", {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16"}, {"m": 16, "n": 16, "k": 32}),
    (
        "attention",
        {"dtype": "float32", "head_dim": 64, "heads_per_kv": 2, "causal": True},
        {"batch": 2, "queries": 33, "keys": 33, "kv_heads": 1},
    ),
    (
        "attention",
        {"dtype": "float32", "head_dim": 64, "lse": True},
        {"batch": 2, "queries": 5, "keys": 33, "kv_heads": 2},
    ),
    ("mla_decode", {"dtype": "float32"}, {"batch": 3, "heads": 4, "keys": 37, "splits": 1, "kinds": 1}),
    ("gemm_f64", {}, {"m": 5, "n": 16, "k": 24}),
    (
        "gemm_f64",
        {"a_major": "m", "b_major": "k", "out_major": "m", "batched": True},
        {"l": 3, "m": 5, "n": 16, "k": 24},
    ),
    ("sgemm", {}, {"m": 5, "n": 16, "k": 24}),
    ("gemm_sm80", {"dtype": "bfloat16", "out_dtype": "bfloat16"}, {"m": 5, "n": 16, "k": 24}),
    ("grouped_gemm_masked", {"dtype": "bfloat16", "experts": 3}, {"m": 5, "n": 16, "k": 64}),
    ("grouped_gemm_contiguous", {"dtype": "bfloat16", "experts": 3}, {"m": 5, "n": 16, "k": 64}),
]
NONE: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("flashinfer.rmsnorm", {"dtype": "float32", "hidden": 64, "weight_bias": 1.0}, {"rows": 3}),
    ("gemm", {"dtype": "float32", "out_dtype": "float32", "epilogue": "relu(accum)"}, {"m": 5, "n": 16, "k": 24}),
    ("gemm", {"dtype": "bfloat16", "out_dtype": "float32"}, {"m": 5, "n": 16, "k": 24}),
    (
        "attention",
        {"dtype": "float32", "head_dim": 64, "causal": True},
        {"batch": 2, "queries": 5, "keys": 33, "kv_heads": 2},
    ),
    (
        "attention",
        {"dtype": "float32", "head_dim": 64, "layout": "varlen"},
        {"batch": 2, "queries": 5, "keys": 33, "kv_heads": 2},
    ),
    ("mla_decode", {"dtype": "float32"}, {"batch": 3, "heads": 4, "keys": 37, "splits": 1, "kinds": 8}),
]


_CLOSE = {"float8_e4m3fn": 2e-2, "bfloat16": 2e-2}


def packed(op: str, expected: Any, inputs: dict[str, Any]) -> Any:
    """What a peer returns: torch has the rows of all groups one after another, without what stands between them."""
    if op == "grouped_gemm_contiguous":
        return expected[0]
    if op == "grouped_gemm_masked":
        return torch.cat([expected[expert, :rows] for expert, rows in enumerate(inputs["masked_m"].tolist())])
    return expected


def made(op: str, given: dict[str, Any], sizes: dict[str, int]) -> tuple[Declaration, Any, dict[str, Any]]:
    declaration = declaration_of(load(find(op)))
    config = complete(declaration.keys, given, op=op)
    assert declaration.inputs is not None
    problem = {"l": 1, "padding": 0, "offset": 0, **sizes}
    return declaration, config, declaration.inputs(config, problem, device="cpu", seed=3)


@pytest.mark.parametrize(("op", "given", "sizes"), SAMPLES)
def test_a_peer_computes_the_same(op: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    declaration, config, inputs = made(op, given, sizes)
    assert declaration.peer is not None and declaration.reference is not None
    expected = packed(op, declaration.reference(config, inputs)[declaration.outputs[0]], inputs)
    peers = declaration.peer(config, inputs)
    assert peers, "a config with a peer"
    for name, run in peers.items():
        found = run()
        found = found[0] if isinstance(found, tuple) else found
        close = _CLOSE.get(str(given.get("dtype")), 1e-4)
        torch.testing.assert_close(
            found.double(), expected.double(), rtol=close, atol=close, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(("op", "given", "sizes"), NONE)
def test_there_is_no_peer_where_nobody_has_the_same(op: str, given: dict[str, Any], sizes: dict[str, int]) -> None:
    declaration, config, inputs = made(op, given, sizes)
    assert declaration.peer is not None
    assert declaration.peer(config, inputs) == {}


def test_every_op_with_a_peer_is_tried() -> None:
    with_peer = {op for op in known_ops() if declaration_of(load(find(op))).peer is not None}
    assert with_peer == {op for op, _, _ in SAMPLES} | {op for op, *_ in CASES}
