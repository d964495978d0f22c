"""The host code of a cache called with tensors of the CPU, in a process of its own: arguments, launches, memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.builds import precast
from tests.helpers.forks.forked_process import run_code
from tests.helpers.source_tree import ROOT

pytestmark = [pytest.mark.slow]

KERNELS = """
from typing import NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_ptr


class Pair(NamedTuple):
    left: object
    right: object


@cute.kernel
def mixed_kernel(
    x: cute.Tensor, pair: Pair, bias: object, out: cute.Tensor, count: cutlass.Int32, scale: cutlass.Float32
):
    i = cute.arch.block_idx()[0] * 32 + cute.arch.thread_idx()[0]
    if i < count:
        value = x[i].to(cutlass.Float32) * scale + pair.left[i]
        if cutlass.const_expr(bias is not None):
            value = value + bias[i]
        out[i] = value


@cute.kernel
def twice_kernel(out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 32 + cute.arch.thread_idx()[0]
    if i < cute.size(out):
        out[i] = out[i] * 2.0


@cute.jit
def mixed_host(
    x: cute.Tensor, pair: Pair, bias: object, out: cute.Tensor, count: cutlass.Int32, scale: cutlass.Float32, stream
):
    blocks = (count + 31) // 32
    mixed_kernel(x, pair, bias, out, count, scale).launch(grid=[blocks, 1, 1], block=[32, 1, 1], stream=stream)
    twice_kernel(out).launch(grid=[blocks, 1, 1], block=[32, 1, 1], stream=stream)


def vector(n, dtype=cutlass.Float32):
    return make_fake_compact_tensor(dtype, (n,), assumed_align=4)


def mixed(bias: bool):
    n = cute.sym_int()
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    given = vector(n) if bias else None
    return cute.compile(
        mixed_host, vector(n, cutlass.BFloat16), Pair(vector(n), None), given, vector(n), cutlass.Int32(1),
        cutlass.Float32(1.0), stream, options="--enable-tvm-ffi",
    )


@cute.jit
def pointers_host(x: cute.Pointer, out: cute.Pointer, count: cutlass.Int32, stream):
    layout = cute.make_layout(count)
    pair = Pair(cute.make_tensor(out, layout), None)
    given, written, one = cute.make_tensor(x, layout), cute.make_tensor(out, layout), cutlass.Float32(1.0)
    launch = mixed_kernel(given, pair, None, written, count, one).launch
    launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)


def pointers(n: int):
    x = make_ptr(cutlass.BFloat16, 0, cute.AddressSpace.gmem, assumed_align=4)
    out = make_ptr(cutlass.Float32, 0, cute.AddressSpace.gmem, assumed_align=4)
    return cute.compile(pointers_host, x, out, cutlass.Int32(n), make_fake_stream(), options="--enable-tvm-ffi")
"""
MANIFEST = """
version: 1
name: mixed
targets: [sm_90a]
path: .
kernels:
  - {compile: "host:mixed", op: mixed, config: {bias: [true, false]}, emit: [object, cubin]}
  - {compile: "host:pointers", op: pointers, config: {n: [40]}}
"""
CALL = """
import sys
from pathlib import Path

import torch

from precast.measure.child.emulation.arguments import CallError
from precast.emulator import EmulationFault
from tests.helpers.kernels.emulated_kernel import emulated_kernel

cache, store, what = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
n = 40
x, left, bias = torch.randn(n).to(torch.bfloat16), torch.randn(n), torch.randn(n)
out = torch.full((n,), float("nan"))


def kernel(bias, kind="object", op="mixed", **more):
    select = lambda a: a.kind == kind and a.config.get("bias", False) == bias
    return emulated_kernel(cache, store, op, select, **more)


def expected(bias):
    return (x.float() * 1.5 + left + (bias if bias is not None else 0)) * 2


if what == "arguments":
    for given in (bias, None):
        made = kernel(given is not None)
        made(x, (left, None), given, out, n, 1.5)
        assert torch.equal(out, expected(given)), out
        assert made.spent.counts.blocks == 4  # two launches
elif what == "names":
    kernel(True)(x=x, pair=(left, None), bias=bias, out=out, count=n, scale=1.5)
    assert torch.equal(out, expected(bias))
elif what == "bounds":
    try:
        kernel(True)(x, (left, None), bias, out[:8], 8, 1.5)
        kernel(True)(x[:n], (left, None), bias, torch.empty(n + 8)[:n], n, 1.5)
    except CallError:
        pass
    made = kernel(False, written=["x"])
    try:
        made(x, (left, None), None, out, n, 1.5)
    except EmulationFault as fault:
        assert fault.kind == "write to an input" and "out" in fault.text, fault
    else:
        raise AssertionError("an input was written")
elif what == "refused":
    try:
        kernel(False)(x.float(), (left, None), None, out, n, 1.5)
    except CallError as error:
        assert "dtype" in str(error) or "float32" in str(error) or "Mismatched" in str(error), error
    else:
        raise AssertionError("a wrong dtype was taken")
elif what == "empty":
    try:
        kernel(False)(x, (left, None), None, out, 0, 1.5)
    except CallError as error:
        assert "a grid of 0 x 1 x 1 blocks, which CUDA refuses" in str(error), error
    else:
        raise AssertionError("a grid of no blocks was launched")
elif what == "pointers":
    made = emulated_kernel(cache, store, "pointers")
    out.fill_(0.25)
    made(x, out, 32, made.own_stream)
    assert torch.equal(out[:32], x.float()[:32] + 0.25) and torch.all(out[32:] == 0.25)
    try:
        made(x, out.data_ptr(), 32, made.own_stream)
    except EmulationFault as fault:
        assert fault.kind == "out of bounds", fault
    else:
        raise AssertionError("the memory behind a bare address was used")
    try:
        made(x, out, 32, 0)
    except CallError as error:
        assert "another stream" in str(error)
    else:
        raise AssertionError("another stream was used")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of kernels with arguments of all kinds, and its store."""
    made = tmp_path_factory.mktemp("host")
    (made / "host.py").write_text(KERNELS)
    (made / "mixed.yaml").write_text(MANIFEST)
    done = precast(made / "store", "build", made / "mixed.yaml", "-o", made / "cache", "-j", 1)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("what", ["arguments", "names", "bounds", "refused", "empty", "pointers"])
def test_host_code_takes_tensors_of_the_cpu(folder: Path, what: str) -> None:
    """In a process of its own, since the recording runtime takes the name of the cache's."""
    done = run_code(
        [CALL, folder / "cache", folder / "store", what],
        {**os.environ, "PYTHONPATH": str(ROOT)},
        ["torch", "tests.helpers.kernels.emulated_kernel"],
        ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
