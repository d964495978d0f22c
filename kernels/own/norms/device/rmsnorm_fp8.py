"""``rmsnorm_fp8`` on the device: several lanes share a row, which stays in their registers from first to last."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_fake_tensor

from precast.kernels.own.device.held_rows import HeldRows
from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.rows import Split

_LARGEST = 448.0  # of float8_e4m3fn


class RmsNormFp8(HeldRows):
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
        """Launch; no rows still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(self.split.blocks(x.shape[0])), 1)
        self.kernel(x, residual, weight, out, scale, eps).launch(
            grid=[blocks, 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=True
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
        block, _, _ = cute.arch.block_idx()
        # Every block waits for the kernel before, whose results it reads; then the next one may be made ready.
        cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()
        split = self.split
        first = block * split.rows
        if first < x.shape[0]:
            row = split.row(first, thread)
            # Lanes without a row of their own read the last one, and write nothing.
            safe = cutlass.Int64(cutlass.min(row, x.shape[0] - 1))
            mine = row < x.shape[0]
            values = self.room()
            self.fetch(x, safe * x.stride[0], values)
            if cutlass.const_expr(residual is not None):
                self.accumulate(residual, safe * residual.stride[0], values, mine)
            held = values.load()
            total = self.shared((held * held).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0), largest=False)
            factor = cute.math.rsqrt(total * (1.0 / (split.vectors * split.vector)) + eps)
            scales = self.room()
            self.fetch(weight, cutlass.Int64(0), scales)
            normal = held * factor * scales.load()
            values.store(normal)
            above = normal.reduce(cute.ReductionOp.MAX, cutlass.Float32(0), 0)
            below = (-normal).reduce(cute.ReductionOp.MAX, cutlass.Float32(0), 0)
            largest = self.shared(cute.arch.fmax(above, below), largest=True)
            divisor = cute.arch.fmax(largest * (1.0 / _LARGEST), cutlass.Float32(self.least))
            if mine:
                self.write(out, safe * out.stride[0], values, 1.0 / divisor)
                if split.index(thread, 0) == 0:
                    scale[row] = divisor

    @cute.jit
    def write(self, out: cute.Tensor, base: cutlass.Int64, values: cute.Tensor, factor: cutlass.Float32) -> None:
        """Store this lane's vectors as float8, which clamps."""
        split = self.split
        for i in cutlass.range_constexpr(split.steps):
            index = split.index(cute.arch.thread_idx()[0], i)
            if index < split.vectors:
                result = cute.make_rmem_tensor(split.vector, out.element_type)
                result.store((values[None, i].load() * factor).to(out.element_type))
                cute.autovec_copy(result, at(out, base + index * split.vector, split.vector))


def compile_rmsnorm_fp8(dtype: Any, hidden: int, residual: bool, threads: int, least: float) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    split = Split.of(hidden, dtype.width, threads)
    rows = cute.sym_int()

    def matrix(dtype: Any) -> Any:
        stride = cute.sym_int64(divisibility=ALIGN * 8 // dtype.width)
        return make_fake_tensor(dtype, (rows, hidden), (stride, 1), assumed_align=ALIGN)

    return cute.compile(
        RmsNormFp8(split, least).rmsnorm_fp8,
        matrix(dtype),
        matrix(dtype) if residual else None,
        make_fake_compact_tensor(dtype, (hidden,), stride_order=(0,), assumed_align=ALIGN),
        matrix(cutlass.Float8E4M3FN),
        make_fake_tensor(cutlass.Float32, (rows,), (1,), assumed_align=4),
        cutlass.Float32(1e-6),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
