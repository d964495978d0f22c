"""Compiled at the first call and kept; two inputs, a constant, a stream, and a result that is a view."""

# A kernel script as authors write them, without types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import functools

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def axpy_kernel(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, a: cutlass.Constexpr):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        out[i] = x[i] * a + y[i]


@cute.jit
def axpy(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, a: cutlass.Constexpr, stream: cuda.CUstream):
    axpy_kernel(x, y, out, a).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


@functools.cache
def compiled(a):
    views = (from_dlpack(torch.empty(64, device="cuda")).mark_layout_dynamic() for _ in range(3))
    return cute.compile(axpy, *views, a, cuda.CUstream(0))


def kernel_fn(x, y):
    assert x.is_cuda and y.device.type == "cuda" and x.get_device() == 0
    out = torch.empty(x.shape, device=x.device).copy_(x)
    flat = [from_dlpack(t.view(-1)).mark_layout_dynamic() for t in (x, y, out)]
    compiled(2.0)(*flat, cuda.CUstream(0))
    return (out,)


def reference_fn(x, y):
    return x * 2.0 + y


def get_inputs():
    return [torch.randn(4, 100).to("cuda"), torch.rand(4, 100).cuda()]
