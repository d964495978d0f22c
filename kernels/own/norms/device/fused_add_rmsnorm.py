"""``fused_add_rmsnorm`` on the device: lanes share a row, which stays in their registers from first to last."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.register_rows import RegisterRows
from precast.kernels.own.device.rows import matrix, vector
from precast.kernels.own.rows import Split


class FusedAddRmsNorm(RegisterRows):
    """``residual += x``, and ``out = residual / sqrt(mean(residual * residual) + eps) * weight``, in float32."""

    @cute.jit
    def fused_add_rmsnorm(
        self,
        x: cute.Tensor,
        residual: cute.Tensor,
        weight: cute.Tensor,
        out: cute.Tensor,
        eps: cutlass.Float32,
        stream: Any,
    ) -> None:
        """Launch."""
        self.kernel(x, residual, weight, out, eps).launch(
            grid=[self.grid(x), 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(
        self, x: cute.Tensor, residual: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Float32
    ) -> None:
        """The rows of one block. All its threads take the same branch, so a barrier inside it is allowed."""
        thread, _, _ = cute.arch.thread_idx()
        wait_for_previous_launch()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            present = self.present(row, total)
            values = self.read(x, self.offset(x, row), present)
            weights = self.read(weight, cutlass.Int64(0))
            self.accumulate(residual, self.offset(residual, row), values, present)
            self.normalise(values, weights, eps)
            if row < total:
                for i in cutlass.range_constexpr(self.depth):
                    self.store(out, self.offset(out, row), 0, i, values[None, i].load())


def compile_fused_add_rmsnorm(dtype: Any, hidden: int, threads: int) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = FusedAddRmsNorm(Split.of(hidden, dtype.width, threads))
    rows = cute.sym_int64()
    return cute.compile(
        operation.fused_add_rmsnorm,
        matrix(dtype, rows, hidden),
        matrix(dtype, rows, hidden),
        vector(dtype, hidden),
        matrix(dtype, rows, hidden),
        cutlass.Float32(1e-6),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
