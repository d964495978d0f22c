"""Triton without a GPU: its driver answers as the target's GPU does, and its kernels launch nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
CODE = """
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_cuda import install_fake_cuda
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.build.gpu.profile import profile_of
from precast.kernels.adapters.scripts.meta_tensors import without_memory
from precast.loader.contract.format.target import Target

install_fake_gpu(FactRecorder(**profile_of(Target.parse("sm_100a")).to_json()))
install_fake_cuda()
import torch
import triton

target = triton.runtime.driver.active.get_current_target()
assert (target.backend, target.arch) == ("cuda", 100), target
properties = triton.runtime.driver.active.utils.get_device_properties(0)
assert properties["multiprocessor_count"] == torch.cuda.get_device_properties(0).multi_processor_count > 100


@triton.jit
def add(x, n):
    raise AssertionError


with without_memory():
    assert add[(1,)](torch.empty(8, device="cuda"), 8) is None
    device = torch.accelerator.current_device_index()
    assert torch.empty(8, device=device).is_cuda
"""


@pytest.mark.slow
def test_its_driver_and_its_kernels(tmp_path: Path) -> None:
    (tmp_path / "launch.py").write_text(CODE)  # Triton reads the source of its kernels
    done = subprocess.run([sys.executable, tmp_path / "launch.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
