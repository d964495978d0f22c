"""A small library with compile functions, as pip would have installed it, which declares its seams itself."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.builds import HEAD

_SEAMS = """
import functools
from typing import Any, NamedTuple

import torch


class Pair(NamedTuple):
    one: Any
    others: list


@cute.jit
def add_plain(x: cute.Tensor, stream):
    add_kernel(x, 1.0).launch(grid=[1, 1, 1], block=[128, 1, 1], stream=stream)


def sample():
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(divisibility=4),), assumed_align=16)
    return x, make_fake_stream(use_tvm_ffi_env_stream=True)


def _compile(value):
    x, stream = sample()
    return cute.compile(add_host, x, float(value), stream, options="--enable-tvm-ffi")


@functools.cache
def compiled_alone(value):
    return _compile(value)


@functools.cache
def compiled_pair(value):
    return _compile(value), 8


@functools.cache
def compiled_closure(value):
    compiled = _compile(value)

    def run(x):
        compiled(x)

    return run


@functools.cache
def compiled_twice(value):
    return Pair(_compile(value), [_compile(value + 1), value])


@functools.cache
def compiled_both(value):  # a closure over kernels, one of which another function compiles
    first = _compile(value)
    second = compiled_twice(value + 1).others[0]

    def run(x):
        first(x)
        second(x)

    return run


def add_alone(x):
    compiled_alone(1)(x)


def add_pair(x):
    kernel, width = compiled_pair(2)
    assert width == 8
    kernel(x)


def add_closure(x):
    compiled_closure(3)(x)


def add_twice(x):
    pair = compiled_twice(4)
    assert type(pair) is Pair and pair.others[1] == 4
    pair.others[0](x)


def add_both(x):
    compiled_twice(8)
    compiled_both(7)(x)
"""
_WITHOUT_SEAM = """
from toy_attached import kernels
from toy_attached.kernels import cute


class Live:
    def __init__(self, value):
        self.value = value

    @cute.jit
    def __call__(self, x: cute.Tensor, stream):
        kernels.add_kernel(x, self.value).launch(grid=[1, 1, 1], block=[128, 1, 1], stream=stream)

    def build(self):
        return cute.compile(self, *kernels.sample())


def of_number(value):
    return cute.compile(Live(float(value)), *kernels.sample())


def of_tensor(x):
    return cute.compile(kernels.add_plain, *kernels.sample())
"""
_NATIVE = """
import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings import driver as cuda
from cutlass.cute.runtime import make_ptr


@cute.kernel
def shift_kernel(x: cute.Tensor, value: cutlass.Constexpr, by: cutlass.Float32):
    i = cute.arch.thread_idx()[0]
    if i < cute.size(x):
        x[i] = x[i] + by + value


@cute.jit
def shift_host(p: cute.Pointer, n: cutlass.Int32, value: cutlass.Constexpr, by: cutlass.Float32 = 1.5, *, stream):
    x = cute.make_tensor(p, cute.make_layout(n))
    shift_kernel(x, value, by).launch(grid=[1, 1, 1], block=[128, 1, 1], stream=stream)


def compiled_native(value, n, p, stream):  # without TVM-FFI: what it is given is what it is called with
    return cute.compile(shift_host, p, n, float(value), cutlass.Float32(0.5), stream=stream)


def add_native(x, n):
    p = make_ptr(cutlass.Float32, x.data_ptr(), cute.AddressSpace.gmem, assumed_align=16)
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    compiled_native(5, n, p, stream)(p, cutlass.Int32(n), stream=stream)
"""
_HOST_ONLY = """
import functools


@functools.cache
def compiled_alone(value):
    raise RuntimeError("nothing is compiled while a program is recorded")
"""
_DECLARED = """
from precast.attach import CompileFunctions, Functions, Library
from precast.attach.libraries import flashinfer

LIBRARY = Library(
    name="toy",
    distribution="toy-attached",
    package="toy_attached",
    seams=(
        Functions("toy_attached.kernels", {names!r}),
        CompileFunctions("toy_attached.native", passed={{"toy_attached.native:compiled_native": ("n", "p", "stream")}}),
    ),
    describe=flashinfer.describe,
    makers=flashinfer.LIBRARY.makers,
)
"""


def write_toy_library(folder: Path, *, compiler: bool = True) -> Path:
    """Write the library ``toy``, package ``toy_attached``; the folder is to be on ``PYTHONPATH``.

    Without ``compiler`` it does not import the DSL, and has ``compiled_alone`` only.
    """
    names = (
        ("compiled_alone", "compiled_pair", "compiled_closure", "compiled_twice", "compiled_both")
        if compiler
        else ("compiled_alone",)
    )
    package, info = folder / "toy_attached", folder / "toy_attached-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(f"{HEAD}\n{_SEAMS}" if compiler else _HOST_ONLY)
    if compiler:
        (package / "without_seam.py").write_text(_WITHOUT_SEAM)
        (package / "native.py").write_text(_NATIVE)
    (folder / "toy_seams.py").write_text(_DECLARED.format(names=names))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-attached\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[precast.libraries]\ntoy = toy_seams\n")
    return folder
