"""Caches that quack, FlashAttention-4 and FlashInfer write: what is harvested is what a recording has.

The libraries compile here, without a GPU, with their own caches on disk, up to the first launch of each call.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from precast.build.plan.recordings.recorded_manifest import read_recorded_manifest
from precast.loader.contract.recordings.recording import Recorded
from tests.helpers.builds import environment, precast

pytestmark = pytest.mark.slow
for name in ("cutlass", "quack", "flash_attn.cute", "flashinfer"):
    pytest.importorskip(name)

CALLS = """
import torch
import quack
from flash_attn.cute import flash_attn_func
from flashinfer.topk_varlen.topk_varlen import _compile_gvr_lb_prepare
from quack.gemm_interface import gemm
from quack.softmax import softmax


def tensor(*sizes, dtype=torch.bfloat16):
    return torch.empty(sizes, device="cuda", dtype=dtype)


def heads():
    return tensor(1, 256, 8, 128)


CALLS = [
    lambda: softmax(tensor(64, 1024)),
    lambda: quack.rmsnorm(tensor(64, 1024), tensor(1024, dtype=torch.float32)),
    lambda: gemm(tensor(64, 1024), tensor(1024, 256), tuned=False),
    lambda: flash_attn_func(heads(), heads(), heads(), causal=True),
    lambda: _compile_gvr_lb_prepare(1024, 4096, 1),
]
"""
WARM = """
from precast.build.child.compiler.export_only import compile_for_export_only
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_cuda import install_fake_cuda
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
from precast.build.gpu.profile import profile_of
from precast.kernels.adapters.fake_tensors import fake_tensors
from precast.kernels.adapters.first_launch import compiled_until_launch
from precast.loader.contract.format.target import Target

install_fake_gpu(FactRecorder(**profile_of(Target.parse("sm_90a")).to_json()))
install_fake_cuda()
compile_for_export_only()
from calls import CALLS

for call in CALLS:
    compiled_until_launch(call, tensors=fake_tensors)
"""
RECORD = """
import flashinfer
import torch
from calls import CALLS, tensor
from quack.softmax import softmax

for call in CALLS:
    call()
softmax(tensor(64, 2048))  # not in the caches
flashinfer.rmsnorm(tensor(64, 1024), tensor(1024))  # kept in memory only
"""

SIZES = """
version: 1
name: sizes
targets: [sm_90a]
kernels:
  - call: "quack:softmax"
    with: {x: {dtype: dtype, shape: [8, N]}}
    config: {dtype: [bfloat16, float16], N: [512, 1024]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``caches``, and a recording of the same calls and one more, ``recorded.yaml``."""
    folder = tmp_path_factory.mktemp("warm")
    for name, text in {"calls.py": CALLS, "warm.py": WARM, "record.py": RECORD}.items():
        (folder / name).write_text(text)
    caches = {
        "QUACK_CACHE_ENABLED": "1",
        "QUACK_CACHE_DIR": str(folder / "caches" / "quack"),
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "1",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": str(folder / "caches" / "attention"),
        "FLASHINFER_WORKSPACE_BASE": str(folder / "caches" / "flashinfer"),
        "CUTE_DSL_ARCH": "sm_90a",
    }
    warm = subprocess.run(
        [sys.executable, "warm.py"], cwd=folder, env=environment(folder / "store") | caches, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert warm.returncode == 0, warm.stderr[-3000:]
    recorded = precast(
        folder / "store", "record", "-t", "sm_90a", "-o", folder / "recorded.yaml", "--", folder / "record.py"
    )
    assert recorded.returncode == 0, recorded.stderr
    return folder


def harvested(folder: Path, *words: object) -> tuple[str, Mapping[str, Recorded]]:
    """What is printed, and the keys of the manifest."""
    output = folder / "harvested.yaml"
    done = precast(folder / "store", "harvest", folder / "caches", "-t", "sm_90a", "-o", output, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr, keys_of(output)


def keys_of(manifest: Path) -> dict[str, Recorded]:
    return {key.key: key for key in read_recorded_manifest(manifest).recorded}


def test_the_keys_are_those_of_a_recording(folder: Path) -> None:
    printed, keys = harvested(folder, "--candidates", folder / "recorded.yaml")
    recorded = keys_of(folder / "recorded.yaml")
    assert len(recorded) == 7
    missing = [
        text for text, key in recorded.items()
        if key.config.get("N") == 2048 or key.compile.startswith("flashinfer.norm")
    ]  # fmt: skip
    assert keys == {text: key for text, key in recorded.items() if text not in missing}
    assert "4 files named by a digest (quack, FlashAttention-4, SGLang): 4 recovered\n" in printed
    assert "1 file named by arguments (FlashInfer): 1 recovered\n" in printed
    assert "not compared: flashinfer.norm.kernels.rmsnorm:" in printed
    assert "keeps no file on disk: record its program" in printed


def test_a_name_of_all_arguments_needs_no_candidate(folder: Path) -> None:
    printed, keys = harvested(folder)
    assert keys == {
        text: key for text, key in keys_of(folder / "recorded.yaml").items() if "compile_gvr_lb_prepare" in key.compile
    }
    assert [key.config["num_threads"] for key in keys.values()] == [1024]
    assert "  4 files not recovered: its name is a digest of its key" in printed


def test_calls_over_many_sizes_are_candidates(folder: Path) -> None:
    (folder / "sizes.yaml").write_text(SIZES)
    printed, keys = harvested(folder, "--candidates", folder / "sizes.yaml", "--library", "quack")
    assert [key.config["N"] for key in keys.values()] == [1024]
    assert set(keys) <= set(keys_of(folder / "recorded.yaml"))
    assert "  1 file not recovered: not every argument follows from its name" in printed  # of another library


def test_a_harvest_can_be_built(folder: Path) -> None:
    harvested(folder)
    built = precast(folder / "store", "plan", folder / "harvested.yaml")
    assert built.returncode == 0, built.stderr
    assert "topk_varlen" in built.stdout
