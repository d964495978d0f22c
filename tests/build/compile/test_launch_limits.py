"""What no GPU launches is refused by the build, with what is used and what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.compile.launch_limits import LaunchSizes, launch_problem, sizes_in
from precast.build.gpu.gpu_table import TABLE
from precast.loader.contract.format.artifact import Resources
from tests.helpers.builds import precast

KB = 1024
NONE = LaunchSizes()


@pytest.mark.parametrize(
    ("registers", "static", "sizes", "problem"),
    [
        (64, 0, LaunchSizes(block=(1024, 1, 1)), ""),
        (72, 0, LaunchSizes(block=(1024, 1, 1)), "73728 registers in a block, and 65536 are available"),
        (255, 0, NONE, ""),
        (32, 0, LaunchSizes(block=(32, 33, 1)), "1056 threads, and 1024 are the most"),
        (32, 0, LaunchSizes(block=(1, 1, 65)), "65 threads along z, and 64 are the most"),
        (32, 0, LaunchSizes(cluster=(16, 1, 1)), ""),
        (32, 0, LaunchSizes(cluster=(17, 1, 1)), "17 blocks, and 16 are the most"),
        (32, KB, LaunchSizes(shared=227 * KB), ""),
        (32, KB + 16, LaunchSizes(shared=227 * KB), "232464 bytes of shared memory in a block, and 232448 are"),
    ],
)
def test_a_limit(registers: int, static: int, sizes: LaunchSizes, problem: str) -> None:
    used = Resources(kernel="k", registers=registers, shared=static, stack=0, local=0)
    found = launch_problem([used], {"k": sizes}, TABLE[9, 0])
    assert problem in found and bool(problem) == bool(found)


def test_ptx_without_sizes_decides_nothing() -> None:
    text = ".visible .entry a(.param .u64 x) { ret; }\n.entry b()\n.reqntid 64\n.reqnctapercluster 2, 1, 1\n{ ret; }"
    assert sizes_in(text) == {"a": NONE, "b": LaunchSizes(block=(64, 1, 1), cluster=(2, 1, 1))}


KERNELS = """
import cutlass
import cutlass.cute as cute
from cutlass.utils import SmemAllocator
from precast.kernels import kernel


@cute.kernel
def device(x: cute.Tensor, count: cutlass.Constexpr):
    tile = SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(count), byte_alignment=16)
    i = cute.arch.thread_idx()[0]
    tile[i] = x[i]
    cute.arch.sync_threads()
    x[i] = tile[i] + tile[i ^ 1]


@cute.jit
def host(x: cute.Tensor, count: cutlass.Constexpr, threads: cutlass.Constexpr):
    device(x, count).launch(grid=[1, 1, 1], block=[threads, 1, 1])


def made(count, threads):
    x = cute.runtime.make_fake_tensor(cutlass.Float32, (cute.sym_int(),), stride=(1,))
    return cute.compile(host, x, count, threads, options="--enable-tvm-ffi")


@kernel(op="vast")
def vast():
    return made(60000, 128)


@kernel(op="wide")
def wide():
    return made(1024, 2048)


@kernel(op="right")
def right():
    return made(1024, 128)
"""


@pytest.mark.slow
def test_the_build_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KERNELS)
    entries = "".join(f'  - compile: "mine:{op}"\n' for op in ("vast", "wide", "right"))
    plan = tmp_path / "m.yaml"
    plan.write_text(f"version: 1\nname: m\ntargets: [sm_90a]\npath: .\nkernels:\n{entries}")
    done = precast(tmp_path / "store", "build", plan, "-o", tmp_path / "cache", "-j", 1)
    assert done.returncode == 1 and "1 variants built" in done.stdout.replace("1 variant ", "1 variants "), done.stdout
    assert "uses 240000 bytes of shared memory in a block, and 232448 are available" in " ".join(done.stderr.split())
    assert "blocks of 2048 threads, and 1024 are the most" in done.stderr
