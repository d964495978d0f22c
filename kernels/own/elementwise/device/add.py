"""``add`` on the device."""

from __future__ import annotations

import operator
from typing import Any

import cutlass.cute as cute

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.elementwise.device.tiled import Tiled, stand_ins, stream, tile_of


class Add(Tiled):
    """``out = x + y``."""

    @cute.jit
    def add(self, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch."""
        blocks = self.blocks(out)
        self.kernel(x, y, out).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor) -> None:
        """One tile."""
        wait_for_previous_launch()
        self.each([x, y], out, operator.add)


def compile_add(dtype: Any, rank: int, threads: int, unroll: int) -> Any:
    """Compile for one dtype and rank."""
    x, y, out = stand_ins(dtype, rank, 3)
    operation = Add(tile_of(dtype, threads, unroll), rank)
    return cute.compile(operation.add, x, y, out, stream(), options="--enable-tvm-ffi")
