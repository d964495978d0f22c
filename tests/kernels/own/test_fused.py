"""The fused kernels: verified on the CPU with their references in their place, and compiled in real workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from tests.helpers.kernels.stand_in import check_verify

HALF = {"dtype": "bfloat16"}
HEADS = {**HALF, "q_heads": 4, "kv_heads": 2, "head_dim": 64, "page": 16}
CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("rotary_paged", HEADS),
    ("rotary_paged", {**HEADS, "norm": True, "cache_dtype": "float8_e4m3fn"}),
    ("rotary_paged", {**HEADS, "dtype": "float16", "rotary_dim": 32, "table_dtype": "float16", "index_dtype": "int32"}),
    ("act_and_mul", {**HALF, "width": 136}),
    ("act_and_mul", {"dtype": "float32", "width": 132, "activation": "gelu"}),
    ("fused_add_rmsnorm", {**HALF, "hidden": 4096}),
    ("fused_add_rmsnorm", {"dtype": "float32", "hidden": 132}),
    ("rmsnorm_fp8", {**HALF, "hidden": 4096, "residual": True}),
    ("rmsnorm_fp8", {"dtype": "float16", "hidden": 80}),
]
NAMES = ["-".join(map(str, (op, *config.values()))) for op, config in CONFIGS]


@pytest.mark.parametrize(("op", "config"), CONFIGS, ids=NAMES)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(op: str, config: dict[str, Any]) -> None:
    check_verify(op, config)


@pytest.mark.slow
def test_each_compiles_with_the_arguments_that_it_declares(tmp_path: Path, build: Callable[..., Path]) -> None:
    """For one of the targets in turn, whose code is the same."""
    each = list(zip(CONFIGS, itertools.cycle(("sm_90a", "sm_100a")), strict=False))
    entries = [{"kernel": op, "config": config, "targets": [target]} for (op, config), target in each]
    build({"name": "fused", "targets": ["sm_90a", "sm_100a"], "kernels": entries})
    for (op, config), target in each:
        declaration = declaration_of(load(find(op)))
        kernel = loader.get(op, config, target=target)
        assert declaration.inputs and declaration.problems
        values = declaration.inputs(kernel.config, declaration.problems(kernel.config)[1], device="cpu", seed=0)
        passed = kernel.signature.passed
        assert [a.name for a in passed] == list(values), "the names and the order are what the declaration says"
        assert [a.always_none for a in passed] == [value is None for value in values.values()]
        assert [a.dtype for a in passed if a.kind == "tensor"] == [
            str(v.dtype).removeprefix("torch.") for v in values.values() if isinstance(v, torch.Tensor)
        ]
        assert [a.name for a in passed if a.written] == [
            n for n in values if n in declaration.outputs and values[n] is not None
        ]
        for resources in kernel.artifact.resources:
            assert (resources.stack, resources.local) == (0, 0), f"{op} {config} spills on {target}"
