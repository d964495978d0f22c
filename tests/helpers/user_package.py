"""A user's package of kernels, and a manifest beside it."""

from __future__ import annotations

from pathlib import Path

MODULE = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from mine.shapes import vector


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, value: cutlass.Constexpr):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        y[i] = x[i] + value


@cute.jit
def add_host(x: cute.Tensor, y: cute.Tensor, value: cutlass.Constexpr, stream):
    add_kernel(x, y, value).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


def add(value: int):
    if value == 3:
        raise ValueError("three is not for adding")
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add_host, *vector(2), value, stream, options="--enable-tvm-ffi")
"""
SHAPES = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor


def vector(count):
    n = cute.sym_int()
    return [make_fake_compact_tensor(cutlass.Float32, (n,), assumed_align=16) for _ in range(count)]
"""
MANIFEST = """
version: 1
name: far
targets: [sm_90a]
path: lib
kernels:
  - {compile: "mine.kernels:add", op: far.add, config: {value: [%s]}}
"""


def write(folder: Path, values: str) -> Path:
    """A user's package and a manifest beside it."""
    package = folder / "home" / "lib" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(MODULE)
    (package / "shapes.py").write_text(SHAPES)
    (folder / "home" / "far.yaml").write_text(MANIFEST % values)
    return folder / "home" / "far.yaml"
