"""The host side of quack's GEMM, for matrices as ``gemm`` has them: b is (k, n), and the caller's stream is taken."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import triton  # noqa: F401  quack imports it without requiring it: here it becomes a part of what the kernel may read
from cutlass.cute.runtime import make_fake_stream
from quack.tile_scheduler import TileSchedulerOptions

_THREADS = 256  # of a block that writes zeros


class Product:
    """One of quack's kernels, and what it is launched with beside matrices."""

    def __init__(self, gemm: Any, *, clusters: int, swizzle: int, swap: bool) -> None:
        self.gemm, self.clusters, self.swizzle, self.swap = gemm, clusters, swizzle, swap

    @cute.jit
    def product(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch; an empty result takes none, since the scheduler divides by the number of tiles. Without any k the
        library's kernel would store sums that it never began."""
        if cute.size(out) > 0:
            if cute.size(a, mode=[1]) > 0:
                self.launch(a, b, out, stream)
            else:
                blocks = (cute.size(out) + _THREADS - 1) // _THREADS
                self.clear(out).launch(grid=[blocks, 1, 1], block=[_THREADS, 1, 1], stream=stream)

    @cute.jit
    def launch(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """``out = a @ b``, or ``out.T = b.T @ a.T`` with the sides exchanged."""
        scheduler = TileSchedulerOptions(cutlass.Int32(self.clusters), max_swizzle_size=cutlass.Int32(self.swizzle))
        first, second, result = a, self.transposed(b), out
        if cutlass.const_expr(self.swap):
            first, second, result = second, first, self.transposed(out)
        self.gemm(first, second, result, None, self.gemm.EpilogueArguments(), scheduler, None, stream)

    @cute.kernel
    def clear(self, out: cute.Tensor) -> None:
        """Zeros in the place of sums of nothing."""
        block, _, _ = cute.arch.block_idx()
        thread, _, _ = cute.arch.thread_idx()
        i = cutlass.Int64(block) * _THREADS + thread
        if i < cute.size(out):
            out[i // out.shape[1], i % out.shape[1]] = out.element_type(0)

    def transposed(self, matrix: Any) -> Any:
        """The same matrix, its sides exchanged."""
        return cute.make_tensor(matrix.iterator, cute.select(matrix.layout, mode=[1, 0]))

    def compile(self, a: Any, b: Any, out: Any) -> Any:
        """Compile for tensors that stand for the caller's."""
        stream = make_fake_stream(use_tvm_ffi_env_stream=True)
        return cute.compile(self.product, a, b, out, stream, options="--enable-tvm-ffi")
