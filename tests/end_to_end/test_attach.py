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

from precast.loader.contract.format.description import describe
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.builds import kept_store, precast

SERVE = Path(__file__).parents[1] / "helpers" / "attach" / "serve_attached.py"
NATIVE = "attach.toy.native_compiled_native_227ece3d"
NO_DEVICE = "there is no CUDA device to launch it on"
TAIL = """
if __name__ == "__main__":
    for name, call in list(globals().items()):
        if name.startswith("call_"):
            call()
"""
TOY = """
import torch
from toy_attached import kernels, native

x = torch.empty(64, device="cuda")


def call_alone():
    kernels.add_alone(x)


def call_pair():
    kernels.add_pair(x)


def call_closure():
    kernels.add_closure(x)


def call_native():
    native.add_native(x, 64)


def call_native_smaller():
    native.add_native(x, 32)


def call_twice():
    kernels.add_twice(x)


def call_both():
    kernels.add_both(x)
"""
UNCOVERED = """
import torch
from toy_attached import kernels, without_seam
from toy_attached.kernels import cute

x = torch.empty(64, device="cuda")


def call_uncovered():
    kernels.add_alone(x)
    without_seam.of_number(3)
    without_seam.of_number(4)
    without_seam.of_tensor(x)
    without_seam.Live(3.0).build()
    cute.compile(kernels.add_plain, *kernels.sample())
"""
QUACK = """
import torch
from quack.gemm_interface import gemm

x = torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.empty(4096, 1024, device="cuda", dtype=torch.bfloat16)


def call_gemm():  # it depends on how many clusters run at once, which attach answers in place of the DSL
    gemm(x, w, tuned=False)
"""
FLASHINFER = """
import flashinfer
import torch

x = torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.empty(4096, device="cuda", dtype=torch.bfloat16)


def call_rmsnorm():
    flashinfer.rmsnorm(x, w)


def call_mxfp8_quantize():  # its compile function returns a tuple
    flashinfer.mxfp8_quantize(x, backend="cute-dsl")
"""
DELTA_RULE = """
import torch
from flashinfer.gdn_kernels.delta_rule_dsl import delta_rule_cp_sm90

k = torch.empty(4096, 4, 128, device="cuda", dtype=torch.bfloat16)
beta = torch.empty(4096, 8, device="cuda")
offsets = torch.arange(0, 4097, 4096, device="cuda")


def call_precompute():
    delta_rule_cp_sm90.cp_delta_rule_t_precompute_dsl_sm90(k, beta, offsets, total_seqlen=4096, max_seqlen=4096)
"""
OPERATORS = """
import cutlass.operators as ops
import torch


def gemm(m):
    a = torch.empty(m, 256, device="cuda", dtype=torch.bfloat16)
    b = torch.empty(256, 1024, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(m, 1024, device="cuda", dtype=torch.bfloat16)
    return ops.GemmArguments(a, b, out, accumulator_type=torch.float32)


def operator(arguments):
    return ops.get_operators(arguments, target_sm="90a", limit=1)[0]


def call_run():
    operator(gemm(512)).run(gemm(512))


def call_another_size():
    operator(gemm(512)).run(gemm(64))


def call_compiled_before():
    arguments = gemm(512)
    artifact = operator(arguments).compile(arguments, "90a")
    assert str(artifact.compiled_for) == "90a"
    operator(arguments).run(arguments, compiled_artifact=artifact)
"""


class Shop:
    """A folder in which a program is recorded, built and served."""

    def __init__(self, folder: Path, program: str, library: str, *, path: Path | None = None) -> None:
        self.folder, self.library = folder, library
        self.program = folder / "program.py"
        self.program.write_text(program + TAIL)
        self.more = {"PYTHONPATH": str(path)} if path else {}

    def run(self, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = precast(kept_store(), *arguments, **self.more)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def record(self, target: str) -> Path:
        manifest = self.folder / f"{target}.yaml"
        self.run("record", "-t", target, "--library", self.library, "-o", manifest, "--", "python", self.program)
        return manifest

    def build(self, manifest: Path) -> Path:
        cache = self.folder / "cache"
        self.run("build", manifest, "-o", cache, "-j", 1)
        return cache

    def serve(self, target: str, dsl: str) -> dict[str, Any]:
        """What each call ended in, where the DSL is ``hidden`` or ``forbidden`` to compile."""
        environment = {**os.environ, **self.more, "PRECAST_CACHE_PATH": str(self.folder / "cache")}
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
    cache = shop.build(manifest)
    checked = shop.run("check", manifest, cache).stdout
    assert "extra" not in checked, checked

    (native,) = Cache(cache).op(NATIVE).artifacts
    assert native.provenance["native_call"] == {"by": 1.5}
    assert "p: pointer to float32, aligned to 16 bytes" in describe(NATIVE, native)

    with_dsl = shop.serve("sm_90a", "forbidden")
    native_calls = {"call_native", "call_native_smaller"}
    assert launches(with_dsl) == {"call_alone", "call_pair", "call_closure", "call_twice", "call_both"} | native_calls
    assert with_dsl["counts"]["toy_attached.kernels:compiled_closure"] == [1, 0]
    assert with_dsl["counts"]["toy_attached.kernels:compiled_twice"] == [2, 0]
    assert with_dsl["counts"]["toy_attached.native:compiled_native"] == [1, 0]  # its sizes and pointers are no key

    without = shop.serve("sm_90a", "hidden")
    assert launches(without) == {"call_alone", "call_pair", "call_twice"} | native_calls
    assert "the library wraps this kernel" in without["ended"]["call_closure"]


@pytest.mark.slow
def test_cutlass_operators_are_served_up_to_the_launch(tmp_path: Path) -> None:
    needs("cutlass.operators")
    shop = Shop(tmp_path, OPERATORS, "cutlass_operators")
    manifest = shop.record("sm_90a")
    assert manifest.read_text().count("- compile") == 2  # two sizes are one key; a target that is named is another
    shop.build(manifest)
    answer = shop.serve("sm_90a", "forbidden")
    assert len(launches(answer)) == 3, answer
    (count,) = answer["counts"].values()
    assert count == [2, 0]


@pytest.mark.slow
def test_what_no_seam_asks_for_is_reported_with_its_place(tmp_path: Path) -> None:
    needs("torch")
    shop = Shop(tmp_path, UNCOVERED, "toy", path=write_toy_library(tmp_path / "site"))
    said = shop.run("record", "-t", "sm_90a", "--library", "toy", "-o", tmp_path / "m.yaml", "--", shop.program)
    tensor = "FakeTensor(Float32, gmem, 16, (?{div=4}), (1)), FakeStream"
    here = "toy_attached.without_seam"
    assert sorted(line for line in said.stderr.splitlines() if line.startswith("not recorded")) == [
        f"not recorded: __main__:call_uncovered: no seam tracks toy_attached.kernels:add_plain({tensor}): "
        "it is a function of the program itself: move it to a module of a package, and declare a library for it",
        f"not recorded: {here}:Live.build: no seam tracks a live {here}:Live({tensor}): "
        "it is not a function of a module: declare a seam at the function that calls it",
        f"not recorded: {here}:of_number: no seam tracks a live {here}:Live({tensor}): "
        f"declare Functions('{here}', ('of_number',))",
        f"not recorded: {here}:of_tensor: no seam tracks toy_attached.kernels:add_plain({tensor}): "
        "it takes tensors, which cannot be a key: declare a seam at the function that has its plain values",
    ]
    assert "1 kernel (toy 1)" in said.stdout


@pytest.mark.slow
def test_quacks_products_are_served_without_the_dsl(tmp_path: Path) -> None:
    needs("quack")
    shop = Shop(tmp_path, QUACK, "quack")
    shop.build(shop.record("sm_90a"))
    answer = shop.serve("sm_90a", "hidden")
    assert launches(answer) == {"call_gemm"}, answer


@pytest.mark.slow
def test_flashinfers_norms_and_quantization_are_served_without_the_dsl(tmp_path: Path) -> None:
    needs("flashinfer")
    shop = Shop(tmp_path, FLASHINFER, "flashinfer")
    shop.build(shop.record("sm_100a"))
    answer = shop.serve("sm_100a", "hidden")
    assert launches(answer) == {"call_rmsnorm", "call_mxfp8_quantize"}, answer


@pytest.mark.slow
def test_flashinfers_delta_rule_is_served_from_the_mapping_that_its_functions_share(tmp_path: Path) -> None:
    needs("flashinfer")
    shop = Shop(tmp_path, DELTA_RULE, "flashinfer")
    shop.build(shop.record("sm_90a"))
    answer = shop.serve("sm_90a", "hidden")
    assert launches(answer) == {"call_precompute"}, answer
