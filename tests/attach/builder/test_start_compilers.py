"""``precast start`` with the real Triton, for a GPU that is not there, and with the real torch.compile, on the CPU."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from precast.cli.main import app

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
print(json.dumps([len(compiled), hashlib.sha256(kernel.asm["cubin"]).hexdigest()]), file=open("results", "a"))
"""
TORCH = """
import json, torch
from torch._dynamo.utils import counters

def layer(x, w):
    return torch.nn.functional.gelu(x @ w).sum(-1) * 2

torch.manual_seed(0)
y = torch.compile(layer)(torch.randn(8, 64), torch.randn(64, 32))
print(json.dumps([counters["inductor"]["fxgraph_cache_miss"], y.tolist()]), file=open("results", "a"))
"""


@pytest.mark.parametrize(("package", "program"), [("triton", TRITON), ("torch", TORCH)])
def test_a_start_elsewhere_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, program: str
) -> None:
    pytest.importorskip(package)
    if package == "torch" and shutil.which("g++") is None:
        pytest.skip("torch.compile on a CPU needs g++")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")  # 150 MB in another folder, for later ones
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "0")  # g++ would try each set of instructions
    Path("program.py").write_text(program)
    words = [sys.executable, "program.py"]
    done = start("record", "-o", "cache", "--", *words)
    assert done.exit_code == 0, done.output
    done = start("check", "cache", "--", *words)
    assert done.exit_code == 0 and "nothing was compiled" in done.output, done.output
    first, second = (json.loads(line) for line in Path("results").read_text().splitlines())
    assert (first[0], second[0]) == (1, 0) and first[1] == second[1]


def start(*words: str) -> Result:
    return CliRunner().invoke(app, ["start", *words], catch_exceptions=False)
