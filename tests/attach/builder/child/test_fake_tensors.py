"""Fake tensors where torch has CUDA and no GPU is there. This torch has no CUDA: its refusal is put in its place."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch._subclasses import fake_tensor

from precast.attach.builder.child import seam
from precast.kernels.adapters.attention.library import tensor
from precast.kernels.adapters.fake_tensors import fake_tensors


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device) -> None:
        raise RuntimeError("No CUDA GPUs are available")

    monkeypatch.setattr(fake_tensor, "init_gpu_context", refuse)


def test_they_need_no_gpu() -> None:
    with fake_tensors():
        made = tensor((2, 3), "bfloat16")
    assert made.shape == (2, 3) and made.device.type == "cuda"


def test_torchs_own_way_is_put_back() -> None:
    with pytest.raises(ZeroDivisionError), fake_tensors():
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="No CUDA GPUs"), fake_tensor.FakeTensorMode():
        torch.empty(1, device="cuda")


def test_the_arguments_of_a_recorded_call_need_no_gpu() -> None:
    library = cast(Any, SimpleNamespace(makers={}))
    call = (("x", ("$tensor", "bfloat16", (4, 8), (8, 1), False)),)
    with fake_tensors():
        made = seam._arguments(library, call)["x"]
    assert made.shape == (4, 8) and made.device.type == "cuda"


def test_a_recorded_call_may_compute_with_its_arguments_and_with_tensors_that_it_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the copies of FlashAttention-4 in engines do before they compile."""

    def forward(x: torch.Tensor) -> Any:
        shifted = x.detach() + torch.arange(8, device=x.device)
        vars(forward)["compile_cache"][(8,)] = tuple(shifted.shape)
        return shifted

    vars(forward)["compile_cache"] = {}
    module = ModuleType("forward_of_tests")
    vars(module)["forward"] = forward
    monkeypatch.setitem(sys.modules, module.__name__, module)
    library = cast(Any, SimpleNamespace(makers={}))
    call = (("x", ("$tensor", "float32", (4, 8), (8, 1), False)),)
    with seam._attributes_replaced("forward_of_tests:forward", "compile_cache") as stored:
        assert seam._compile_call(library, "forward_of_tests:forward", stored, [8], call) == (4, 8)
    assert vars(forward)["compile_cache"] == {}, "the library's own cache is put back, and holds nothing of it"
