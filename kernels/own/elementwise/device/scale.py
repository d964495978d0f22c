"""``scale`` on the device."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.elementwise.device.tiled import Tiled, stand_ins, stream, tile_of


class Scale(Tiled):
    """``out = x * factor``."""

    @cute.jit
    def scale(self, x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, stream: Any) -> None:
        """Launch."""
        blocks = self.blocks(out)
        self.kernel(x, out, factor).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32) -> None:
        """One tile."""
        wait_for_previous_launch()
        self.each([x], out, lambda x: x * factor)


def compile_scale(dtype: Any, rank: int, threads: int, unroll: int) -> Any:
    """Compile for one dtype and rank."""
    x, out = stand_ins(dtype, rank, 2)
    operation = Scale(tile_of(dtype, threads, unroll), rank)
    return cute.compile(operation.scale, x, out, cutlass.Float32(1.0), stream(), options="--enable-tvm-ffi")
