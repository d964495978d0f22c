"""Two kernels, launched one after the other; the second reads what the first wrote."""

# A kernel script as authors write them, without types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import cuda.bindings.driver as cuda
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def square_kernel(x: cute.Tensor, squared: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        squared[i] = x[i] * x[i]


@cute.jit
def square(x: cute.Tensor, squared: cute.Tensor, stream: cuda.CUstream):
    square_kernel(x, squared).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        out[i] = x[i] + y[i]


@cute.jit
def add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream):
    add_kernel(x, y, out).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


def view(tensor):
    return from_dlpack(tensor).mark_layout_dynamic()


sample = view(torch.empty(64, device="cuda"))
stream = cuda.CUstream(0)
compiled_square = cute.compile(square, sample, sample, stream)
compiled_add = cute.compile(add, sample, sample, sample, stream)


def kernel_fn(x, y):
    squared, out = torch.empty_like(x), torch.empty_like(x)
    compiled_square(view(x), view(squared), stream)
    compiled_add(view(squared), view(y), view(out), stream)
    return out


def reference_fn(x, y):
    return x * x + y


def get_inputs():
    return [torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")]
