"""Compiled with its own TVM-FFI option, called with plain tensors, in place."""

# A kernel script as authors write them, without types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream


@cute.kernel
def double_kernel(x: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        x[i] = x[i] + x[i]


@cute.jit
def double(x: cute.Tensor, stream):
    double_kernel(x).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


fake = make_fake_compact_tensor(cutlass.BFloat16, (cute.sym_int(),), assumed_align=16)
stream = make_fake_stream(use_tvm_ffi_env_stream=True)
compiled = cute.compile(double, fake, stream, options="--enable-tvm-ffi")


def kernel_fn(x):
    compiled(x)
    return x


def reference_fn(x):
    return x + x


def get_inputs():
    return [torch.randn(1000, dtype=torch.bfloat16, device="cuda")]
