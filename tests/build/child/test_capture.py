"""Compiled objects are caught at ``cute.compile``; what that cannot compile is said in words of the author's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builds import precast

POINTERS = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_ptr


@cute.kernel
def one_kernel(x: cute.Tensor):
    x[0] = x[0] + 1


@cute.jit
def one(x: cute.Pointer, stream):
    one_kernel(cute.make_tensor(x, cute.make_layout(8))).launch(grid=[1, 1, 1], block=[1, 1, 1], stream=stream)


def compile_one(env: bool):
    x = make_ptr(cutlass.Float32, 1 << 20, cute.AddressSpace.gmem, assumed_align=16)
    return cute.compile(one, x, make_fake_stream(use_tvm_ffi_env_stream=env))
"""
MANIFEST = """
version: 1
name: mine
targets: [sm_90a]
path: .
kernels:
  - {compile: "pointers:compile_one", op: mine.one, config: {env: [false, true]}}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("without_torch")
def test_a_kernel_that_takes_only_pointers_needs_a_stream_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    (tmp_path / "pointers.py").write_text(POINTERS)
    (tmp_path / "mine.yaml").write_text(MANIFEST)
    done = precast(tmp_path / "store", "build", tmp_path / "mine.yaml", "-o", tmp_path / "cache", "-j", 1)
    assert done.returncode == 1
    assert "1 variant built, 0 reused, 1 failed" in done.stdout, done.stderr
    assert "compile it with make_fake_stream(), without use_tvm_ffi_env_stream, and pass a stream" in done.stderr
    assert "EnvStream" not in done.stderr and 'pointers.py", line ' in done.stderr
