"""Libraries' own front ends: recorded without a GPU, built, and served up to the launch, with the DSL and without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from precast.loader.contract.format.description import describe
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.builds import kept_store, precast

pytestmark = pytest.mark.slow

SERVE = Path(__file__).parents[1] / "helpers" / "attach" / "serve_attached.py"
NATIVE = "attach.toy.native_compiled_native_227ece3d"
NO_DEVICE = "there is no CUDA device to launch it on"
RECORDED = """
import runpy
import sys

for program in sys.argv[1:]:
    for name, call in runpy.run_path(program, run_name="__main__").items():
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
from flashinfer.gdn_kernels.delta_rule_dsl import delta_rule_cp_sm90

x = torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.empty(4096, device="cuda", dtype=torch.bfloat16)
k = torch.empty(4096, 4, 128, device="cuda", dtype=torch.bfloat16)
beta = torch.empty(4096, 8, device="cuda")
offsets = torch.arange(0, 4097, 4096, device="cuda")


def call_rmsnorm():
    flashinfer.rmsnorm(x, w)


def call_mxfp8_quantize():  # its compile function returns a tuple
    flashinfer.mxfp8_quantize(x, backend="cute-dsl")


def call_delta_rule():  # it is served from the mapping that the library's functions share
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


PROGRAMS = {"toy": TOY, "uncovered": UNCOVERED, "quack": QUACK, "flashinfer": FLASHINFER, "operators": OPERATORS}
WITHOUT_DSL = ("toy", "quack", "flashinfer")
WITH_DSL = ("toy", "cutlass_operators")
MODULES = {"quack": "quack", "flashinfer": "flashinfer", "operators": "cutlass.operators"}
TARGET = "sm_90a"


@dataclass(frozen=True)
class Served:
    """Programs that were recorded and built together, and what each call then ended in."""

    manifest: Path
    cache: Path
    said: str
    without_dsl: dict[str, Any]
    """Where the DSL is hidden."""
    with_dsl: dict[str, Any]
    """Where it may not compile."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """All programs are one run of each kind, since the libraries' imports take longer than all else."""
    folder = tmp_path_factory.mktemp("attach")
    env = {"PYTHONPATH": str(write_toy_library(folder / "site"))}
    programs = {}
    for name, text in PROGRAMS.items():
        if find_spec("torch") and (name not in MODULES or find_spec(MODULES[name])):
            programs[name] = folder / f"{name}_program.py"
            programs[name].write_text(text)
    (folder / "recorded.py").write_text(RECORDED)
    manifest, cache = folder / "recorded.yaml", folder / "cache"

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        done = precast(kept_store(), *words, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    named = [word for name in (*WITHOUT_DSL, WITH_DSL[-1]) for word in ("--library", name)]
    recorded = run(
        "record", "-t", TARGET, *named, "-o", manifest, "--", "python", folder / "recorded.py", *programs.values()
    )
    run("build", manifest, "-o", cache, "-j", 1)
    checked = run("check", manifest, cache).stdout
    assert "extra" not in checked, checked

    def serve(libraries: tuple[str, ...], dsl: str, *names: str) -> dict[str, Any]:
        environment = {**os.environ, **env, "PRECAST_CACHE_PATH": str(cache)}
        called = [str(programs[name]) for name in names if name in programs]
        command = [sys.executable, str(SERVE), TARGET, ",".join(libraries), dsl, *called]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    without_dsl = serve(WITHOUT_DSL, "hidden", "toy", "quack", "flashinfer")
    with_dsl = serve(WITH_DSL, "forbidden", "toy", "operators")
    return Served(manifest, cache, recorded.stderr, without_dsl, with_dsl)


def launches(answer: dict[str, Any], *, of: str) -> set[str]:
    """The calls of a program that came up to a launch."""
    own = set(re.findall(r"def (call_\w+)", PROGRAMS[of]))
    return {name for name, ended in answer["ended"].items() if name in own and NO_DEVICE in ended}


def needs(module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


def test_what_a_compile_function_returns_is_served_as_it_was(served: Served) -> None:
    needs("torch")
    (native,) = Cache(served.cache).op(NATIVE).artifacts
    assert native.provenance["native_call"] == {"by": 1.5}
    assert "p: pointer to float32, aligned to 16 bytes" in describe(NATIVE, native)

    counts = served.with_dsl["counts"]
    both = {"call_alone", "call_pair", "call_twice", "call_native", "call_native_smaller"}
    assert launches(served.with_dsl, of="toy") == both | {"call_closure", "call_both"}
    assert counts["toy_attached.kernels:compiled_closure"] == [1, 0]
    assert counts["toy_attached.kernels:compiled_twice"] == [2, 0]
    assert counts["toy_attached.native:compiled_native"] == [1, 0]  # its sizes and pointers are no key

    assert launches(served.without_dsl, of="toy") == both
    assert "the library wraps this kernel" in served.without_dsl["ended"]["call_closure"]


def test_cutlass_operators_are_served_up_to_the_launch(served: Served) -> None:
    needs("cutlass.operators")
    assert (
        served.manifest.read_text().count("@cutlass_operators") == 2
    )  # two sizes are one key; a target that is named is another
    assert launches(served.with_dsl, of="operators") == {"call_run", "call_another_size", "call_compiled_before"}
    (count,) = (count for name, count in served.with_dsl["counts"].items() if not name.startswith("toy_"))
    assert count == [2, 0]


def test_what_no_seam_asks_for_is_reported_with_its_place(served: Served) -> None:
    needs("torch")
    tensor = "FakeTensor(Float32, gmem, 16, (?{div=4}), (1)), FakeStream"
    here = "toy_attached.without_seam"
    said = [line for line in served.said.splitlines() if line.startswith("not recorded") and ("toy_attached" in line)]
    assert sorted(said) == [
        f"not recorded: __main__:call_uncovered: no seam tracks toy_attached.kernels:add_plain({tensor}): "
        "it is a function of the program itself: move it to a module of a package, and declare a library for it",
        f"not recorded: {here}:Live.build: no seam tracks a live {here}:Live({tensor}): "
        "it is not a function of a module: declare a seam at the function that calls it",
        f"not recorded: {here}:of_number: no seam tracks a live {here}:Live({tensor}): "
        f"declare Functions('{here}', ('of_number',))",
        f"not recorded: {here}:of_tensor: no seam tracks toy_attached.kernels:add_plain({tensor}): "
        "it takes tensors, which cannot be a key: declare a seam at the function that has its plain values",
    ]


def test_quacks_products_are_served_without_the_dsl(served: Served) -> None:
    needs("quack")
    assert launches(served.without_dsl, of="quack") == {"call_gemm"}, served.without_dsl


def test_flashinfers_kernels_are_served_without_the_dsl(served: Served) -> None:
    needs("flashinfer")
    expected = {"call_rmsnorm", "call_mxfp8_quantize", "call_delta_rule"}
    assert launches(served.without_dsl, of="flashinfer") == expected, served.without_dsl
