"""``rotary_paged``: its inputs and reference beside another way to say the same, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.own.attention.rotary_paged import rotary_paged
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target

SM90 = Target.parse("sm_90a")
LLAMA = {"dtype": "bfloat16", "q_heads": 8, "kv_heads": 2, "head_dim": 64, "page": 16}
CONFIGS: list[dict[str, Any]] = [
    LLAMA,
    {**LLAMA, "norm": True, "cache_dtype": "float8_e4m3fn"},
    {**LLAMA, "dtype": "float16", "rotary_dim": 32, "table_dtype": "float16", "index_dtype": "int32", "page": 5},
]


def full(config: dict[str, Any]) -> dict[str, Any]:
    return complete(keys_of(rotary_paged), config, op="rotary_paged")


def one_by_one(config: dict[str, Any], v: dict[str, Any]) -> dict[str, torch.Tensor]:
    """A head at a time, as multiplication of complex numbers; float8 is rounded in the comparison."""
    size, rotated = config["head_dim"], config["rotary_dim"] or config["head_dim"]
    queries, keys = config["q_heads"], config["kv_heads"]
    q = torch.zeros(v["q"].shape, dtype=torch.float64)
    caches = {name: v[f"{name}_cache"].double().clone() for name in ("k", "v")}
    for t, row in enumerate(v["qkv"].double()):
        cos, sin = v["cos_sin"][v["positions"][t]].double().split(rotated // 2)
        for head, x in enumerate(row.view(-1, size)):
            if config["norm"] and head < queries + keys:
                weight = v["q_weight" if head < queries else "k_weight"].double()
                x = torch.nn.functional.rms_norm(x, (size,), weight, v["eps"])
            if head < queries + keys:
                z = torch.complex(*x[:rotated].split(rotated // 2)) * torch.complex(cos, sin)
                x = torch.cat((z.real, z.imag, x[rotated:]))
            if head < queries:
                q[t, head * size : (head + 1) * size] = x
                continue
            name, kv = ("k", head - queries) if head < queries + keys else ("v", head - queries - keys)
            slot = int(v["slots"][t])
            if slot >= 0:
                scale = float(v[f"{name}_scale"]) if config["cache_dtype"] else 1.0
                caches[name][slot // config["page"], slot % config["page"], kv] = (x / scale).clamp(-448, 448)
    return {"q": q, "k_cache": caches["k"], "v_cache": caches["v"]}


@pytest.mark.parametrize("config", CONFIGS, ids=["llama", "qwen-fp8", "partial"])
def test_the_reference_is_what_each_head_says(config: dict[str, Any]) -> None:
    config = full(config)
    declaration = declaration_of(rotary_paged)
    assert declaration.verifiable and declaration.refusal(config, SM90) is None
    assert declaration.problems and declaration.inputs and declaration.reference and declaration.cost
    for seed, problem in enumerate(p for p in declaration.problems(config) if p["tokens"] < 1000):
        values = declaration.inputs(config, problem, device="cpu", seed=seed)
        expected = declaration.reference(config, values)
        assert tuple(expected) == declaration.outputs
        for name, found in one_by_one(config, values).items():
            torch.testing.assert_close(expected[name], found, rtol=1e-9, atol=1e-9)
        used = values["slots"][values["slots"] >= 0]
        assert len(used.unique()) == len(used), "no two tokens have one slot"
        assert declaration.cost(config, problem).bytes >= values["qkv"].numel() * 2


def test_some_tokens_of_the_problems_have_no_slot() -> None:
    declaration = declaration_of(rotary_paged)
    assert declaration.inputs
    values = declaration.inputs(full(LLAMA), {"tokens": 20}, device="cpu", seed=0)
    assert (values["slots"] < 0).sum() == 4


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"dtype": "float32"}, "dtype is float32: use one of bfloat16, float16"),
        ({"cache_dtype": "float8_e5m2"}, "cache_dtype is float8_e5m2: use one of None, float8_e4m3fn"),
        ({"index_dtype": "uint8"}, "index_dtype is uint8: use one of int64, int32"),
        ({"threads": 96}, "threads is 96: use one of"),
        ({"page": 0}, "page is 0: use a positive number"),
        ({"kv_heads": -1}, "kv_heads is -1: use a positive number"),
        ({"head_dim": 72}, "head_dim is 72: use a multiple of 16"),
        ({"head_dim": 0}, "head_dim is 0: use a multiple of 16"),
        ({"rotary_dim": 80}, "rotary_dim is 80: use a multiple of 16, from 16 to the head_dim of 64"),
        ({"rotary_dim": 0}, "rotary_dim is 0: use a multiple of 16"),
        ({"head_dim": 96, "norm": True}, "norm is true, and head_dim is 96: use 16, 32, 64"),
        ({"head_dim": 1024, "norm": True}, "norm is true, and head_dim is 1024"),
    ],
)
def test_what_cannot_be_built_is_refused(changed: dict[str, Any], reason: str) -> None:
    config = full({**LLAMA, **changed})
    assert reason in str(declaration_of(rotary_paged).refusal(config, SM90))
    assert "sm_90+" in str(declaration_of(rotary_paged).refusal(config, Target.parse("sm_80")))
