"""Where a cache is used: a fresh environment with the loader, a cache wheel, what these need, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Run
from tests.helpers.gpu.device import no_device

ROOT = Path(__file__).resolve().parents[2]

USE = """
import importlib.util, sys
for name in ("cutlass", "torch", "yaml", "precast.build", "precast.kernels"):
    try:
        assert importlib.util.find_spec(name) is None, name
    except ModuleNotFoundError:
        pass
from precast import loader
for name in ("cutlass", "torch", "yaml", "tvm_ffi"):
    assert name not in sys.modules, name
(cache,) = loader.caches()
print(cache.name, cache.origin, cache.error)
kernel = loader.get("rmsnorm", {"dtype": "bfloat16", "hidden": 4096}, target="sm_90a")
print(kernel.target, kernel.signature)
try:
    kernel(None, None, None, 1e-6)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
def test_a_cache_wheel_and_the_loader_are_enough(tmp_path: Path, precast: Run) -> None:
    asked = tmp_path / "one.yaml"
    asked.write_text(
        "version: 1\nname: one\ntargets: [sm_90a]\nkernels:\n"
        "  - kernel: rmsnorm\n    config: {dtype: bfloat16, hidden: 4096}\n    tuned: {threads: 128}\n"
    )
    built = precast("build", asked, "-o", tmp_path / "cache")
    assert built.returncode == 0, built.stderr
    assert precast("wheel", tmp_path / "cache", "-o", tmp_path / "dist").returncode == 0
    pip = [sys.executable, "-m", "pip"]
    run([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path / "dist", ROOT / "loader"])
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "clean"])
    python = tmp_path / "clean" / "bin" / "python"
    constraints = ["-c", ROOT / "constraints.txt"]
    install = [*pip, "--python", python, "install", "-q", "--no-compile", *constraints]
    run([*install, *sorted((tmp_path / "dist").glob("*.whl"))])
    said = run([python, "-I", "-c", USE])
    assert said.splitlines() == [
        "one entry point 'one' None",
        "sm_90a (x: bfloat16[n0, 4096], weight: bfloat16[4096], out: bfloat16[n0, 4096], eps: float32)",
        "NoCudaDevice" if no_device() else "TypeError",
    ]


def run(command: list[object]) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
