"""``rmsnorm_fp8`` on the device: several lanes share a row, which stays in their registers from first to last."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device import float8
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.register_rows import RegisterRows
from precast.kernels.own.device.rows import matrix, vector
from precast.kernels.own.device.vectors import at
from precast.kernels.own.rows import Split


class RmsNormFp8(RegisterRows):
    """The norm of each row, over a scale of the row's own: its largest value becomes the largest of float8."""

    def __init__(self, split: Split, least: float) -> None:
        super().__init__(split)
        self.least = least

    @cute.jit
    def rmsnorm_fp8(
        self,
        x: cute.Tensor,
        residual: cute.Tensor | None,
        weight: cute.Tensor,
        out: cute.Tensor,
        scale: cute.Tensor,
        eps: cutlass.Float32,
        stream: Any,
    ) -> None:
        """Launch."""
        self.kernel(x, residual, weight, out, scale, eps).launch(
            grid=[self.grid(x), 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(
        self,
        x: cute.Tensor,
        residual: cute.Tensor | None,
        weight: cute.Tensor,
        out: cute.Tensor,
        scale: cute.Tensor,
        eps: cutlass.Float32,
    ) -> None:
        """The rows of one block. All its threads take the same branch, so barriers inside it are allowed."""
        thread, _, _ = cute.arch.thread_idx()
        wait_for_previous_launch()
        split, total, first = self.split, cute.size(x, mode=[0]), self.first()
        if first < total:
            row = split.row(first, thread)
            present = self.present(row, total)
            values = self.read(x, self.offset(x, row), present)
            if cutlass.const_expr(residual is not None):
                self.accumulate(residual, self.offset(residual, row), values, present)
            self.normalise(values, self.read(weight, cutlass.Int64(0)), eps)
            divisor = float8.scale_of(self.shared(float8.size(values.load()), cute.arch.fmax), self.least)
            if row < total:
                for i in cutlass.range_constexpr(self.depth):
                    index = self.index(0, i)
                    if index < split.vectors:
                        target = at(out, self.offset(out, row) + index * split.vector, split.vector)
                        float8.store(values[None, i].load() * (1.0 / divisor), target)
                if split.index(thread, 0) == 0:
                    scale[row] = divisor


def compile_rmsnorm_fp8(dtype: Any, hidden: int, residual: bool, threads: int, least: float) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = RmsNormFp8(Split.of(hidden, dtype.width, threads), least)
    rows = cute.sym_int64()
    return cute.compile(
        operation.rmsnorm_fp8,
        matrix(dtype, rows, hidden),
        matrix(dtype, rows, hidden) if residual else None,
        vector(dtype, hidden),
        matrix(cutlass.Float8E4M3FN, rows, hidden),
        make_fake_tensor(cutlass.Float32, (rows,), (1,), assumed_align=4),
        cutlass.Float32(1e-6),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
