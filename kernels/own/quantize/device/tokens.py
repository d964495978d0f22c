"""``quantize_fp8`` with a scale for each row, on the device: several lanes share a row."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.device import float8
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import Rows, matrix
from precast.kernels.own.device.vectors import at
from precast.kernels.own.rows import Split


class TokenQuantizer(Rows):
    """``scale = max(abs(x)) / 448`` of each row, and ``out = x / scale``."""

    def __init__(self, split: Split, least: float) -> None:
        super().__init__(split)
        self.least = least

    @cute.jit
    def quantize_fp8(self, x: cute.Tensor, out: cute.Tensor, scale: cute.Tensor, stream: Any) -> None:
        """Launch."""
        self.kernel(x, out, scale).launch(
            grid=[self.grid(x), 1, 1], block=[self.split.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, scale: cute.Tensor) -> None:
        """The rows of one block. All its threads take the same branch, so a barrier inside it is allowed."""
        wait_for_previous_launch()
        thread, _, _ = cute.arch.thread_idx()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row read the last one, and write nothing.
            safe = cutlass.min(row, total - 1)
            source, target = self.offset(x, safe), self.offset(out, safe)
            vectors = self.registers(x.element_type)
            if cutlass.const_expr(self.in_registers):
                self.fetch(x, source, 0, vectors)

            def larger(peak: Any, group: Any) -> Any:
                return cute.arch.fmax(peak, float8.size(vectors.load().to(cutlass.Float32)))

            lane_max = self.fold(x, source, vectors, larger, cutlass.Float32(0))
            divisor = float8.scale_of(self.shared(lane_max, cute.arch.fmax), self.least)
            if row < total:
                self.fold(
                    x,
                    source,
                    vectors,
                    lambda factor, group: self.write(factor, out, target, group, vectors),
                    1.0 / divisor,
                )
                if self.split.index(thread, 0) == 0:
                    scale[row] = divisor

    @cute.jit
    def write(self, factor: Any, out: cute.Tensor, base: Any, group: Any, vectors: cute.Tensor) -> Any:
        """Store a group as float8."""
        vector = self.split.vector
        for i in cutlass.range_constexpr(self.depth):
            index = self.index(group, i)
            if index < self.split.vectors:
                values = vectors[None, i].load().to(cutlass.Float32) * factor
                float8.store(values, at(out, base + index * vector, vector))
        return factor


def compile_token_quantizer(dtype: Any, width: int, threads: int, least: float) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = TokenQuantizer(Split.of(width, dtype.width, threads), least)
    rows = cute.sym_int64()
    return cute.compile(
        operation.quantize_fp8,
        matrix(dtype, rows, width),
        matrix(cutlass.Float8E4M3FN, rows, width),
        make_fake_tensor(cutlass.Float32, (rows,), (1,), assumed_align=4),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
