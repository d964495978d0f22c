"""``gemm_act`` and ``gemm_gated``: what they declare, what they refuse, and what they are once compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.adapters.quack.activated_gemm import gemm_act, gemm_gated, interleave
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring.schema import keys_of
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.compare import compare
from tests.helpers.builds import kept_store, succeeded

installed = pytest.mark.skipif(QUACK.obstacle() is not None, reason=str(QUACK.obstacle()))
SM90, SM100 = Target.parse("sm_90a"), Target.parse("sm_100a")
HALF = {"dtype": "bfloat16"}
SMALL = {"m": 33, "n": 48, "k": 40, "padding": 8}


def full(function: Any, **config: Any) -> dict[str, Any]:
    return complete(keys_of(function), {**HALF, **config}, op=function.__name__)


def rounded(function: Any, config: dict[str, Any], seed: int) -> tuple[Any, dict[str, Any]]:
    """The inputs of a small problem, and how far a result in float32 is from the reference, as the tolerance has it."""
    declaration = declaration_of(function)
    assert declaration.verifiable and declaration.inputs and declaration.reference and declaration.tolerance
    values = declaration.inputs(config, SMALL, device="cpu", seed=seed)
    expected = declaration.reference(config, values)["out"]
    assert expected.shape == values["out"].shape

    def error(found: torch.Tensor) -> float:
        assert declaration.tolerance
        return compare(found.to(values["out"].dtype), expected, declaration.tolerance(config)).error

    return error, values


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu_squared": lambda x: torch.relu(x) ** 2,
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


@pytest.mark.parametrize("activation", ["relu", "relu_squared", "silu", "gelu", "gelu_tanh", "quick_gelu", "tanh"])
@pytest.mark.parametrize("bias", [False, True])
def test_an_activation_of_a_layer(activation: str, bias: bool) -> None:
    error, v = rounded(gemm_act, full(gemm_act, activation=activation, bias=bias), 3)
    assert list(v) == ["a", "b", *(["bias"] if bias else []), "out"]
    product = v["a"].float() @ v["b"].float() + (v["bias"].float() if bias else 0.0)
    assert error(ACTIVATIONS[activation](product)) < 1.0
    assert error(product) > 4.0, "without it"
    if bias:
        assert error(ACTIVATIONS[activation](product - v["bias"].float())) > 4.0


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh", "relu", "sigmoid"])
def test_a_gate_and_what_it_lets_through(activation: str) -> None:
    for layout in ("halves", "interleaved"):
        error, v = rounded(gemm_gated, full(gemm_gated, activation=activation, layout=layout), 5)
        assert list(v) == ["a", "b", "out"] and v["b"].shape == (40, 96)
        weight = v["b"].T.float()
        gate, up = weight.chunk(2) if layout == "halves" else (weight[0::2], weight[1::2])
        act, x = ACTIVATIONS[activation], v["a"].float()
        assert error(act(x @ gate.T) * (x @ up.T)) < 1.0
        assert error(act(x @ up.T) * (x @ gate.T)) > 4.0, "the other way round"


def test_a_weight_of_halves_is_interleaved_once() -> None:
    gate, up = torch.randn(5, 3), torch.randn(5, 3)
    found = interleave(torch.cat((gate, up)))
    assert torch.equal(found[0::2], gate) and torch.equal(found[1::2], up) and found.is_contiguous()


@pytest.mark.parametrize(
    ("function", "config", "target", "reason"),
    [
        (gemm_act, {"activation": "silu", "dtype": "float32"}, SM90, "use bfloat16 or float16"),
        (gemm_act, {"activation": "silu", "tile": (128, 8)}, SM90, "use a multiple of 16"),
        (gemm_gated, {"tile": (128, 48)}, SM90, "use a multiple of 32"),
        (gemm_gated, {"tile": (96, 64)}, SM90, "tile is [96, 64]: use 64, 128, 256 as its first number"),
        (gemm_gated, {"tile": (192, 96)}, SM90, "use 64, 128, 256"),
        (gemm_gated, {"tile": (256, 256)}, SM90, "at most 208 for 256 rows"),
        (gemm_gated, {"tile": (128, 224), "pingpong": True}, SM90, "with pingpong, the second number is at most 208"),
        (gemm_gated, {"tile": (256, 64), "pingpong": True}, SM90, "use 64, 128, 192 as its first number"),
        (gemm_gated, {"tile": (128,)}, SM90, "give two numbers for each"),
        (gemm_gated, {"cluster": (3, 1)}, SM90, "use 1, 2 or 4 blocks a side"),
        (gemm_gated, {"cluster": (4, 2)}, SM90, "four at most"),
        (gemm_gated, {"tile": (256, 128), "cluster": (1, 1)}, SM100, "use 256 rows with two blocks a side"),
        (gemm_gated, {"tile": (256, 128), "pingpong": True}, SM100, "pingpong is for sm_90a"),
        (gemm_gated, {}, Target.parse("sm_120a"), "gemm_gated is for sm_90a"),
    ],
)
def test_what_cannot_be_built_is_refused(function: Any, config: dict[str, Any], target: Target, reason: str) -> None:
    assert reason in str(declaration_of(function).refusal(full(function, **config), target))


@installed
@pytest.mark.slow
def test_one_of_each_compiles_without_a_gpu(tmp_path: Path, use: Callable[[Path], None]) -> None:
    rows: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("gemm_act", "sm_90a", {"activation": "gelu", "bias": True}, {"tile": [128, 192], "pingpong": True}),
        ("gemm_act", "sm_100a", {"activation": "relu"}, {"tile": [256, 128], "cluster": [2, 1]}),
        ("gemm_gated", "sm_90a", {}, {"tile": [64, 224], "cluster": [1, 1]}),
        ("gemm_gated", "sm_100a", {"layout": "interleaved"}, {"tile": [128, 64], "cluster": [1, 1]}),
    ]
    entries = [
        {"kernel": op, "targets": [target], "config": {**HALF, **config}, "tuned": {k: [v] for k, v in tuned.items()}}
        for op, target, config, tuned in rows
    ]
    manifest = {"version": 1, "name": "fused", "targets": ["sm_90a"], "kernels": entries}
    (tmp_path / "fused.yaml").write_text(json.dumps(manifest))
    succeeded("build", tmp_path / "fused.yaml", "-o", tmp_path / "cache", "--store", kept_store(), "-j", 1)
    use(tmp_path / "cache")
    for op, target, config, tuned in rows:
        kernel = loader.get(op, {**HALF, **config, **tuned}, target=target)
        declaration = declaration_of(gemm_act if op == "gemm_act" else gemm_gated)
        assert declaration.inputs
        values = declaration.inputs(kernel.config, SMALL, device="cpu", seed=0)
        passed = kernel.signature.passed
        assert [a.name for a in passed] == list(values)
        assert [a.written for a in passed] == [name == "out" for name in values]
        assert all(a.alignment == 16 for a in passed)
        assert all((r.stack, r.local) == (0, 0) for r in kernel.artifact.resources), "nothing spills"
