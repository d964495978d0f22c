"""examples/moe.py: what it launches is a mixture of experts, and it finds every kernel in a cache of its manifest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.contract.format.config import complete
from tests.helpers.kernels.planned_cache import planned_cache

ROOT = Path(__file__).parents[2]
functional = torch.nn.functional


def stand_in(op: str, given: Mapping[str, Any], **_: Any) -> Callable[..., None]:
    """A kernel that computes its reference, of a config that its declaration takes."""
    declared = declaration_of(load(find(op)))
    config = complete(declared.keys, given, op=op)
    assert declared.inputs and declared.reference and declared.problems
    names = list(declared.inputs(config, declared.problems(config)[0], device="cpu", seed=0))

    def launch(*arguments: Any) -> None:
        values = dict(zip(names, arguments, strict=True))
        assert declared.reference
        for name, result in declared.reference(config, values).items():
            values[name].copy_(result)

    return launch


@pytest.fixture
def moe(example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, on the CPU."""
    module = example("moe")
    monkeypatch.setattr(module, "DEVICE", "cpu")
    monkeypatch.setattr(module, "loader", SimpleNamespace(get=stand_in))
    return module


def alike(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(functional.cosine_similarity(found.float().flatten(), expected.flatten(), dim=0))


@pytest.mark.parametrize("tokens", [1, 13])
def test_what_it_launches_is_a_mixture_of_experts(moe: ModuleType, tokens: int) -> None:
    """Of 8 experts 5 are here, so that some entries are dropped."""
    model = moe.Model(8, 5, 3, 256, 128)
    torch.manual_seed(2)
    experts, routing = moe.Experts.random(model), moe.Routing.random(model, tokens)
    x = torch.randn(tokens, 256).bfloat16()
    found = moe.expected(model, experts, x, routing)
    naive = torch.zeros(tokens, 256)
    for token in range(tokens):
        for expert, weight in zip(routing.topk_ids[token].tolist(), routing.weights[token].tolist(), strict=True):
            if expert < 5:
                gate, up = (experts.gate_up[expert].float() @ x[token].float()).chunk(2)
                naive[token] += weight * (experts.down[expert].float() @ (functional.silu(gate) * up))
    torch.testing.assert_close(found, naive, rtol=1e-4, atol=1e-4)
    step = moe.Step(model, experts, tokens)
    eight = moe.EightBitStep(model, moe.Blocks.of(experts.gate_up), moe.Blocks.of(experts.down), tokens)
    for _ in range(2):  # a graph is replayed: nothing may be left over
        assert alike(step(x, routing), found) > 0.9999
        assert moe.ALIKE < alike(eight(x, routing), found) < 0.99999, "eight bits, and not more"
    assert int(step.rows.ge(0).sum()) == int((routing.topk_ids < 5).sum()) < 3 * tokens + (tokens == 1)


def test_the_side_in_torch_computes_the_same(moe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def grouped(a: torch.Tensor, b: torch.Tensor, *, offs: torch.Tensor) -> torch.Tensor:
        out, start = torch.full((len(a), b.shape[2]), torch.nan, dtype=a.dtype), 0
        for weights, end in zip(b, offs.tolist(), strict=True):
            out[start:end] = a[start:end] @ weights
            start = end
        return out

    monkeypatch.setattr(torch, "_grouped_mm", grouped)
    model = moe.Model(8, 5, 3, 256, 128)
    torch.manual_seed(2)
    experts, routing, x = moe.Experts.random(model), moe.Routing.random(model, 13), torch.randn(13, 256).bfloat16()
    found = moe.TorchStep(model, experts, 13)(x, routing)
    assert alike(found, moe.expected(model, experts, x, routing)) > 0.9999


@pytest.mark.slow
def test_it_finds_every_kernel_in_a_cache_of_its_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its manifest lists is found. tests/kernels compile these kernels; here one small library stands for all."""
    cache = planned_cache(ROOT / "manifests" / "moe.yaml", "sm_90a", tmp_path)
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(cache))
    asked = [sys.executable, str(ROOT / "examples" / "moe.py"), "--dry-run", "--target", "sm_90a", "--no-float8"]
    asked += ["--models", "deepseek-v3", "--tokens", "1", "700"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    roles = [line.split()[3] for line in ran.stdout.splitlines()]
    assert roles == ["sort", "permute", "gate_up", "down", "finalize"] * 2
