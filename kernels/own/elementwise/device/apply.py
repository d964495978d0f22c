"""``apply`` on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutlass.cute as cute

from precast.kernels.own.device.functions import function_of
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.elementwise.device.tiled import Tiled, stand_ins, stream, tile_of
from precast.kernels.own.tiles import Tile


class Apply(Tiled):
    """``out = function(x)``."""

    def __init__(self, tile: Tile, rank: int, function: Callable[[Any], Any]) -> None:
        super().__init__(tile, rank)
        self.function = function

    @cute.jit
    def apply(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch."""
        blocks = self.blocks(out)
        self.kernel(x, out).launch(
            grid=[blocks, 1, 1], block=[self.tile.threads, 1, 1], stream=stream, use_pdl=overlaps()
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor) -> None:
        """One tile."""
        wait_for_previous_launch()
        self.each([x], out, self.function)


def compile_apply(dtype: Any, function: str, rank: int, threads: int, unroll: int) -> Any:
    """Compile for one dtype, function and rank."""
    x, out = stand_ins(dtype, rank, 2)
    operation = Apply(tile_of(dtype, threads, unroll), rank, function_of(function, dtype))
    return cute.compile(operation.apply, x, out, stream(), options="--enable-tvm-ffi")
