"""What a build says of an author's mistakes that only a GPU would find otherwise, and of the compiler's own errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builds import precast

KERNELS = """
import torch
import cutlass
import cutlass.cute as cute
from precast.kernels import kernel


@cute.kernel
def device(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < x.shape[0]:
        out[i] = x[i] + x[i]


@cute.jit
def host(x: cute.Tensor, out: cute.Tensor):
    device(x, out).launch(grid=[(x.shape[0] + 127) // 128, 1, 1], block=[128, 1, 1])


@cute.kernel
def device_with_a_variable_of_one_branch(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.thread_idx()[0]
    if i < 3:
        value = cutlass.Float32(1.0)
    out[i] = value


@cute.jit
def refused_by_the_compiler(x: cute.Tensor, out: cute.Tensor):
    device_with_a_variable_of_one_branch(x, out).launch(grid=[1, 1, 1], block=[128, 1, 1])


def made(host):
    n = cute.sym_int()
    tensors = [cute.runtime.make_fake_tensor(cutlass.Float32, (n,), stride=(1,)) for _ in range(2)]
    return cute.compile(host, *tensors, options="--enable-tvm-ffi")


def sizes(config):
    return [{"n": 1000}]


def drawn(config, problem, *, device, seed):
    return {name: torch.ones(problem["n"], device=device) for name in ("x", "out")}


def doubled(config, values):
    return {"out": values["x"] * 2}


@kernel(op="right", outputs=["out"], problems=sizes, inputs=drawn, reference=doubled)
def right():
    return made(host)


@kernel(op="misnamed", outputs=["outt"])
def misnamed():
    return made(host)


@kernel(op="unreferenced", outputs=["out"])
def unreferenced():
    return made(host)


@kernel(op="raising", outputs=["out"], problems=sizes, inputs=drawn, reference=lambda c, v: {"out": v["y"]})
def raising():
    return made(host)


@kernel(op="refused")
def refused():
    return made(refused_by_the_compiler)
"""
OPS = ("right", "misnamed", "unreferenced", "raising", "refused")


@pytest.mark.slow
def test_they_are_named_by_the_build(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KERNELS)
    manifest = tmp_path / "m.yaml"
    entries = "".join(f'  - compile: "mine:{op}"\n' for op in OPS)
    manifest.write_text(f"version: 1\nname: m\ntargets: [sm_90a]\npath: .\nkernels:\n{entries}")
    done = precast(tmp_path / "store", "build", manifest, "-o", tmp_path / "cache", "-j", 1)
    assert done.returncode == 1 and "3 variants built, 0 reused, 2 failed" in done.stdout
    printed = done.stderr
    assert "mine:misnamed: outputs: the kernel takes no argument 'outt'; did you mean 'out'? (PCB19)" in printed
    warnings = [line.partition("m.yaml:")[2] for line in printed.splitlines() if line.startswith("warning: ")]
    line = next(number for number, line in enumerate(KERNELS.splitlines(), 1) if 'op="raising"' in line)
    assert warnings == [
        f"9:5: raising: reference() failed with KeyError: 'y' ({tmp_path}/mine.py:{line})",
        "8:5: unreferenced: it declares no reference: 'precast verify' cannot check its numbers",
    ]
    assert "\x1b" not in printed, "the compiler writes colours in a pipe, too"
    reasons = [line for line in printed.splitlines() if line.startswith("error: ") and "refused()" in line]
    assert len(reasons) == 1 and "name 'value' is not defined" in reasons[0] and "mine.py:" in reasons[0]
    assert "|     out[i] = value" in printed, "the author's line"
    assert "slow:" not in done.stdout and "large:" not in done.stdout
