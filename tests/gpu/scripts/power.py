"""Config keys: the keyword-only parameters of kernel_fn."""

# A kernel script as authors write them, without types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

from precast.kernels import Tuned


@cute.kernel
def power_kernel(x: cute.Tensor, out: cute.Tensor, exponent: cutlass.Constexpr, threads: cutlass.Constexpr):
    i = cute.arch.block_idx()[0] * threads + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        value = x[i]
        for _ in cutlass.range_constexpr(exponent - 1):
            value = value * x[i]
        out[i] = value


@cute.jit
def power(
    x: cute.Tensor, out: cute.Tensor, exponent: cutlass.Constexpr, threads: cutlass.Constexpr, stream: cuda.CUstream
):
    blocks = (cute.size(x) + threads - 1) // threads
    power_kernel(x, out, exponent, threads).launch(grid=[blocks, 1, 1], block=[threads, 1, 1], stream=stream)


def view(tensor):
    return from_dlpack(tensor).mark_layout_dynamic()


def kernel_fn(x, *, dtype: torch.dtype = torch.float32, exponent: int = 2, threads: Tuned[int] = 128):
    out = torch.empty_like(x)
    stream = cuda.CUstream(0)
    cute.compile(power, view(x), view(out), exponent, threads, stream)(view(x), view(out), stream)
    return out


def reference_fn(x, *, exponent=2):
    return x.float() ** exponent


def get_inputs(*, dtype=torch.float32):
    return [torch.rand(1000, device="cuda").to(dtype)]
