"""examples/llama.py: what it launches is a Llama, and it finds every kernel in a cache of its manifest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from precast.kernels.adapters.attention.library import FLASH
from precast.kernels.adapters.quack.library import QUACK
from tests.helpers.kernels.planned_cache import planned_cache

ROOT = Path(__file__).parents[2]
OBSTACLE = QUACK.obstacle() or FLASH.obstacle()
functional = torch.nn.functional


@pytest.fixture
def llama(example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, with layers small enough for the CPU."""
    module = example("llama")
    small: dict[str, float] = {"HIDDEN": 64, "INTER": 48, "HEADS": 4, "KV_HEADS": 2, "SIZE": 16, "PAGE": 4}
    small |= {"QUERIES": 64, "KEYS": 32, "SCALE": 0.25}
    for name, value in {**small, "DEVICE": "cpu", "DTYPE": torch.float64}.items():
        monkeypatch.setattr(module, name, value)
    return module


def norm(x: Any, weight: Any, out: Any, rows: int, eps: float) -> None:
    assert rows == len(x)
    out.copy_(functional.rms_norm(x, x.shape[-1:], weight, eps))


def add_norm(x: Any, residual: Any, weight: Any, out: Any, eps: float) -> None:
    residual += x
    norm(residual, weight, out, len(x), eps)


def gemm(a: Any, b: Any, out: Any) -> None:
    assert b.stride(0) == 1
    torch.mm(a, b, out=out)


def gated(a: Any, b: Any, out: Any) -> None:
    act_and_mul(a @ b, out)


def act_and_mul(x: Any, out: Any) -> None:
    gate, up = x.chunk(2, dim=-1)
    out.copy_(functional.silu(gate) * up)


def rotary(*, qkv: Any, cos_sin: Any, positions: Any, slots: Any, q: Any, k_cache: Any, v_cache: Any) -> None:
    kv_heads, size = k_cache.shape[-2:]
    heads = qkv.shape[1] // size - 2 * kv_heads
    x = qkv.clone().unflatten(1, (-1, size))
    cos, sin = cos_sin[positions].double().unsqueeze(1).chunk(2, dim=-1)
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    q.copy_(turned[:, :heads].flatten(1))
    k_cache.flatten(0, 1)[slots] = turned[:, heads : heads + kv_heads]
    v_cache.flatten(0, 1)[slots] = x[:, heads + kv_heads :]


def attention(*, q: Any, k: Any, v: Any, out: Any, softmax_scale: float) -> None:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    found = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=softmax_scale, enable_gqa=True)
    out.copy_(found.transpose(1, 2))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("tokens", [1, 4, 7])
def test_what_it_launches_is_what_torch_computes(
    llama: ModuleType, monkeypatch: pytest.MonkeyPatch, tokens: int, fused: bool
) -> None:
    stand_ins = llama.Kernels(
        norm=norm, add_norm=add_norm, qkv=gemm, rotary=rotary, attention=attention, o=gemm,
        gate_up=gated if fused else gemm, act_and_mul=None if fused else act_and_mul, down=gemm,
    )  # fmt: skip
    monkeypatch.setattr(llama.Kernels, "find", lambda *a, **k: stand_ins)
    torch.manual_seed(1)
    layers = [llama.Layer.random() for _ in range(3)]
    last, hidden = torch.rand(64, dtype=torch.float64) + 0.5, torch.randn(tokens, 64, dtype=torch.float64)
    before = hidden.clone()
    stack = llama.Precast(layers, last, tokens, fused=fused)
    expected = llama.Torch(layers, last, tokens)(hidden)
    for _ in range(2):  # a graph is replayed: nothing may be left over
        assert llama.apart(stack(hidden), expected) < 1e-6  # cosines are in float32
    assert torch.equal(hidden, before)
    reference = llama.Torch(layers, last.float(), tokens)(hidden)
    assert 1e-9 < llama.apart(reference, expected) < 1e-5


@pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
@pytest.mark.slow
def test_it_finds_every_kernel_in_a_cache_of_its_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its manifest lists is found. tests/kernels compile these kernels; here one small library stands for all."""
    cache = planned_cache(ROOT / "manifests" / "llama.yaml", "sm_90a", tmp_path)
    monkeypatch.setenv("PRECAST_CACHE_PATH", str(cache))
    script = [
        sys.executable,
        str(ROOT / "examples" / "llama.py"),
        "--dry-run",
        "--target",
        "sm_90a",
        "--tokens",
        "1",
        "700",
    ]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = [line.split()[:3] for line in ran.stdout.splitlines()]
    layer = ["norm", "add_norm", "qkv", "rotary", "attention", "o", "gate_up", "down"]
    once = [*layer, *layer[:-1], "act_and_mul", "down"]
    assert found == [[tokens, "tokens", name] for tokens in ("1", "700") for name in once]
