"""Libraries' own front ends: recorded without a GPU, built, and served up to the launch, with the DSL and without."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.builds import precast

SERVE = Path(__file__).parents[1] / "helpers" / "attach" / "serve_attached.py"
NO_DEVICE = "there is no CUDA device to launch it on"
TAIL = """
if __name__ == "__main__":
    for name, call in list(globals().items()):
        if name.startswith("call_"):
            call()
"""
TOY = """
import torch
from toy_attached import kernels

x = torch.empty(64, device="cuda")


def call_alone():
    kernels.add_alone(x)


def call_pair():
    kernels.add_pair(x)


def call_closure():
    kernels.add_closure(x)


def call_twice():
    kernels.add_twice(x)
"""
QUACK = """
import torch
from quack.softmax import softmax

x = torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)


def call_softmax():
    softmax(x)
"""
FLASHINFER = """
import flashinfer
import torch

x = torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.empty(4096, device="cuda", dtype=torch.bfloat16)


def call_rmsnorm():
    flashinfer.rmsnorm(x, w)


def call_fused_add_rmsnorm():
    flashinfer.fused_add_rmsnorm(x, torch.empty_like(x), w)


def call_mxfp8_quantize():  # its compile function returns a tuple
    flashinfer.mxfp8_quantize(x, backend="cute-dsl")
"""


class Shop:
    """A folder in which a program is recorded, built and served."""

    def __init__(self, folder: Path, program: str, library: str, *, path: Path | None = None) -> None:
        self.folder, self.library = folder, library
        self.program = folder / "program.py"
        self.program.write_text(program + TAIL)
        self.more = {"PYTHONPATH": str(path)} if path else {}

    def run(self, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = precast(self.folder / "store", *arguments, **self.more)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def record(self, target: str) -> Path:
        manifest = self.folder / f"{target}.yaml"
        self.run("record", "-t", target, "--library", self.library, "-o", manifest, "--", "python", self.program)
        return manifest

    def build(self, manifest: Path, *, status: int = 0) -> str:
        done = self.run("build", manifest, "-o", self.folder / manifest.stem, "-j", 1, status=status)
        return done.stdout + done.stderr

    def serve(self, target: str, dsl: str) -> dict[str, Any]:
        """What each call ended in, where the DSL is ``hidden`` or ``forbidden`` to compile."""
        environment = {**os.environ, **self.more, "PRECAST_CACHE_PATH": str(self.folder / target)}
        command = [sys.executable, str(SERVE), target, self.library, dsl, str(self.program)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


def launches(answer: dict[str, Any]) -> set[str]:
    """The calls that came up to a launch."""
    return {name for name, ended in answer["ended"].items() if NO_DEVICE in ended}


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


@pytest.mark.slow
def test_what_a_compile_function_returns_is_served_as_it_was(tmp_path: Path) -> None:
    needs("torch")
    shop = Shop(tmp_path, TOY, "toy", path=write_toy_library(tmp_path / "site"))
    manifest = shop.record("sm_90a")
    said = shop.build(manifest, status=1)
    assert "compiled 2 objects, and a function of an attached library must compile one" in said

    with_dsl = shop.serve("sm_90a", "forbidden")
    assert launches(with_dsl) == {"call_alone", "call_pair", "call_closure"}
    assert with_dsl["ended"]["call_twice"].startswith("KernelMissing")
    assert with_dsl["counts"]["toy_attached.kernels:compiled_closure"] == [1, 0]

    without = shop.serve("sm_90a", "hidden")
    assert launches(without) == {"call_alone", "call_pair"}
    assert "the library wraps this kernel" in without["ended"]["call_closure"]


@pytest.mark.slow
def test_quacks_softmax_is_served_up_to_the_launch(tmp_path: Path) -> None:
    needs("quack")
    shop = Shop(tmp_path, QUACK, "quack")
    shop.build(shop.record("sm_90a"))
    for dsl in ("hidden", "forbidden"):
        answer = shop.serve("sm_90a", dsl)
        assert launches(answer) == {"call_softmax"}, answer


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_flashinfers_norms_and_quantization_are_served_without_the_dsl(tmp_path: Path, target: str) -> None:
    needs("flashinfer")
    shop = Shop(tmp_path, FLASHINFER, "flashinfer")
    shop.build(shop.record(target))
    answer = shop.serve(target, "hidden")
    assert launches(answer) == {"call_rmsnorm", "call_fused_add_rmsnorm", "call_mxfp8_quantize"}, answer
