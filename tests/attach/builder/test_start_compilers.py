"""``precast start`` with the real Triton, for a GPU that is not there, and with the real torch.compile, on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from precast.attach.companions.machine_facts import Machine
from precast.attach.companions.placement import place
from precast.cli.main import app
from precast.loader.resolve.cache import Cache

pytestmark = pytest.mark.slow

TRITON = """
import hashlib, json, triton, triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

compiled = []
knobs.compilation.listener = lambda *, src, cache_hit, **_: compiled.append(src.name) if not cache_hit else None

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) + 1, at < n)

signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
source = ASTSource(add, signature, constexprs={"BLOCK": 256})
kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32))
print(json.dumps([len(compiled), hashlib.sha256(kernel.asm["cubin"]).hexdigest()]))
"""
TORCH = """
import json, torch
from torch._dynamo.utils import counters

def layer(x, w):
    return torch.nn.functional.gelu(x @ w).sum(-1) * 2

torch.manual_seed(0)
y = torch.compile(layer)(torch.randn(8, 64), torch.randn(64, 32))
print(json.dumps([counters["inductor"]["fxgraph_cache_miss"], y.tolist()]))
"""


@pytest.mark.parametrize(
    ("package", "program", "variable"),
    [("triton", TRITON, "TRITON_CACHE_DIR"), ("torch", TORCH, "TORCHINDUCTOR_CACHE_DIR")],
)
def test_a_start_elsewhere_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, program: str, variable: str
) -> None:
    pytest.importorskip(package)
    if package == "torch" and shutil.which("g++") is None:
        pytest.skip("torch.compile on a CPU needs g++")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")  # 150 MB in another folder, for later ones
    Path("program.py").write_text(program)
    words = [sys.executable, "program.py"]
    done = start("record", "-o", "cache", "--", *words)
    assert done.exit_code == 0, done.output
    done = start("check", "cache", "--", *words)
    assert done.exit_code == 0 and "nothing was compiled" in done.output, done.output
    placement = place(Cache("cache"), tmp_path / "placed", Machine().facts, {})
    empty, full = printed(words, {variable: str(tmp_path / "empty")}), printed(words, placement.variables)
    assert (empty[0], full[0]) == (1, 0) and empty[1] == full[1]


def start(*words: str) -> Result:
    return CliRunner().invoke(app, ["start", *words], catch_exceptions=False)


def printed(words: list[str], variables: dict[str, str]) -> list[object]:
    """How many kernels a program compiled, and its result."""
    environment = {**os.environ, **variables}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    value: list[object] = json.loads(done.stdout.splitlines()[-1])
    return value
