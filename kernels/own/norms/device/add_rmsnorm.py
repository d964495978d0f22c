"""``add_rmsnorm`` on the device: several lanes share a row, which stays in their registers from first to last."""

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


class AddRmsNorm(HeldRows):
    """``residual += x``, and ``out = residual / sqrt(mean(residual * residual) + eps) * weight``, in float32."""

    @cute.jit
    def add_rmsnorm(
        self,
        x: cute.Tensor,
        residual: cute.Tensor,
        weight: cute.Tensor,
        out: cute.Tensor,
        eps: cutlass.Float32,
        stream: Any,
    ) -> None:
        """Launch; no rows still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(self.split.blocks(x.shape[0])), 1)
        self.kernel(x, residual, weight, out, eps).launch(
            grid=[blocks, 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=True
        )

    @cute.kernel
    def kernel(
        self, x: cute.Tensor, residual: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Float32
    ) -> None:
        """The rows of one block. All its threads take the same branch, so a barrier inside it is allowed."""
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
            values, scales = self.room(), self.room()
            self.fetch(x, safe * x.stride[0], values)
            self.fetch(weight, cutlass.Int64(0), scales)
            self.accumulate(residual, safe * residual.stride[0], values, mine)
            held = values.load()
            total = self.shared((held * held).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0), largest=False)
            factor = cute.math.rsqrt(total * (1.0 / (split.vectors * split.vector)) + eps)
            values.store(held * factor * scales.load())
            if mine:
                self.write(out, safe * out.stride[0], values)

    @cute.jit
    def write(self, out: cute.Tensor, base: cutlass.Int64, values: cute.Tensor) -> None:
        """Round this lane's vectors and store them."""
        split = self.split
        for i in cutlass.range_constexpr(split.steps):
            index = split.index(cute.arch.thread_idx()[0], i)
            if index < split.vectors:
                result = cute.make_rmem_tensor(split.vector, out.element_type)
                result.store(values[None, i].load().to(out.element_type))
                cute.autovec_copy(result, at(out, base + index * split.vector, split.vector))


def compile_add_rmsnorm(dtype: Any, hidden: int, threads: int) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    split = Split.of(hidden, dtype.width, threads)
    rows = cute.sym_int()

    def matrix() -> Any:
        stride = cute.sym_int64(divisibility=split.vector)
        return make_fake_tensor(dtype, (rows, hidden), (stride, 1), assumed_align=ALIGN)

    return cute.compile(
        AddRmsNorm(split).add_rmsnorm,
        matrix(),
        matrix(),
        make_fake_compact_tensor(dtype, (hidden,), stride_order=(0,), assumed_align=ALIGN),
        matrix(),
        cutlass.Float32(1e-6),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
