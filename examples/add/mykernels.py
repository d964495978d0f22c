import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from precast.kernels import DType, Tuned, kernel

TYPES = {"bfloat16": cutlass.BFloat16, "float16": cutlass.Float16, "float32": cutlass.Float32}


@cute.kernel
def add_kernel(x: cute.Tensor, out: cute.Tensor, value: cutlass.Float32, threads: cutlass.Constexpr):
    i = cute.arch.block_idx()[0] * threads + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        out[i] = (x[i].to(cutlass.Float32) + value).to(out.element_type)


@cute.jit
def add(x: cute.Tensor, out: cute.Tensor, value: cutlass.Float32, threads: cutlass.Constexpr, stream):
    blocks = (cute.size(x) + threads - 1) // threads
    add_kernel(x, out, value, threads).launch(grid=[blocks, 1, 1], block=[threads, 1, 1], stream=stream)


def supports(config, target):
    return "threads must be a multiple of 32: use 128 or 256" if config["threads"] % 32 else None


@kernel(op="mine.add", targets=["sm_80+"], outputs=["out"])
def compile_add(dtype: DType, threads: Tuned[int] = 128):
    """Add a number to every element: ``add(x, out, value)``."""
    n = cute.sym_int()
    x, out = (make_fake_compact_tensor(TYPES[dtype], (n,), assumed_align=16) for _ in range(2))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add, x, out, cutlass.Float32(0), threads, stream, options="--enable-tvm-ffi")
