"""Rectified linear unit of a matrix."""

# A kernel script as authors write them, without types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def relu_kernel(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    rows, columns = x.shape
    if i < rows * columns:
        value = x[i // columns, i % columns]
        out[i // columns, i % columns] = value if value > 0 else x.element_type(0)


@cute.jit
def relu(x: cute.Tensor, out: cute.Tensor):
    blocks = (cute.size(x) + 127) // 128
    relu_kernel(x, out).launch(grid=[blocks, 1, 1], block=[128, 1, 1])


def view(tensor):
    return from_dlpack(tensor, assumed_align=16).mark_layout_dynamic()


sample = torch.empty(8, 8, dtype=torch.float16, device="cuda")
compiled = cute.compile(relu, view(sample), view(torch.empty_like(sample)))


def kernel_fn(x):
    out = torch.empty_like(x)
    compiled(view(x), view(out))
    return out


def reference_fn(x):
    return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 32, dtype=torch.float16, device="cuda")]
