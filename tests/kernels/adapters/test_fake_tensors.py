"""Fake tensors where torch has CUDA and no GPU is there. This torch has no CUDA: its refusal is put in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch._subclasses import fake_tensor

from precast.kernels.adapters import seam
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
    made = seam._arguments(library, call)["x"]
    assert made.shape == (4, 8) and made.device.type == "cuda"
