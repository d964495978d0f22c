"""Pointers in place of tensors: the kernel makes its own layout of a size that is passed."""

# A kernel script as authors write them, without types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import make_ptr


@cute.kernel
def triple_kernel(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        out[i] = x[i] * 3.0


@cute.jit
def triple(x: cute.Pointer, out: cute.Pointer, n: cutlass.Int32, stream: cuda.CUstream):
    layout = cute.make_layout(n)
    tensors = cute.make_tensor(x, layout), cute.make_tensor(out, layout)
    triple_kernel(*tensors).launch(grid=[(n + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


def pointer(tensor):
    return make_ptr(cutlass.Float32, tensor.data_ptr(), cute.AddressSpace.gmem, assumed_align=16)


def kernel_fn(x):
    out = torch.empty_like(x)
    arguments = (pointer(x), pointer(out), cutlass.Int32(x.numel()), cuda.CUstream(0))
    cute.compile(triple, *arguments)(*arguments)
    return out


def reference_fn(x):
    return x * 3


def get_inputs():
    return [torch.randn(1000, device="cuda")]
