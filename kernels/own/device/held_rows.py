"""Rows that stay in the registers of the lanes that share them, in float32: how they are read, and reduced."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.device.vectors import at
from precast.kernels.own.rows import WARP, Split


class HeldRows:
    """The rows of a block, each lane with its vectors of one."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def room(self) -> cute.Tensor:
        """Registers for this lane's vectors."""
        return cute.make_rmem_tensor((self.split.vector, self.split.steps), cutlass.Float32)

    @cute.jit
    def fetch(self, tensor: cute.Tensor, base: cutlass.Int64, into: cute.Tensor) -> None:
        """Load this lane's vectors in float32; where it has none, zeros."""
        split = self.split
        for i in cutlass.range_constexpr(split.steps):
            index = split.index(cute.arch.thread_idx()[0], i)
            held = cute.make_rmem_tensor(split.vector, tensor.element_type)
            held.fill(0)
            if index < split.vectors:
                cute.autovec_copy(at(tensor, base + index * split.vector, split.vector), held)
            into[None, i].store(held.load().to(cutlass.Float32))

    @cute.jit
    def accumulate(self, residual: cute.Tensor, base: cutlass.Int64, values: cute.Tensor, mine: Any) -> None:
        """Add the residual to what is held, and store the sum, rounded, in its place."""
        split = self.split
        for i in cutlass.range_constexpr(split.steps):
            index = split.index(cute.arch.thread_idx()[0], i)
            if index < split.vectors:
                place = at(residual, base + index * split.vector, split.vector)
                held = cute.make_rmem_tensor(split.vector, residual.element_type)
                cute.autovec_copy(place, held)
                total = values[None, i].load() + held.load().to(cutlass.Float32)
                values[None, i].store(total)
                if mine:
                    held.store(total.to(residual.element_type))
                    cute.autovec_copy(held, place)

    @cute.jit
    def shared(self, mine: cutlass.Float32, largest: cutlass.Constexpr) -> cutlass.Float32:
        """The sum of what the lanes of a row have, or the largest: by shuffles in a warp, by shared memory across."""
        split = self.split
        width = min(split.lanes, WARP)
        if cutlass.const_expr(largest):
            found = cute.arch.warp_reduction_max(mine, threads_in_group=width)
        else:
            found = cute.arch.warp_reduction_sum(mine, threads_in_group=width)
        if cutlass.const_expr(split.warps > 1):
            thread = cute.arch.thread_idx()[0]
            parts = cute.make_tensor(
                cute.arch.alloc_smem(cutlass.Float32, split.threads // WARP), cute.make_layout(split.threads // WARP)
            )
            if thread % WARP == 0:
                parts[thread // WARP] = found
            cute.arch.sync_threads()
            start = split.first_warp(thread)
            found = parts[start]
            for warp in cutlass.range_constexpr(1, split.warps):
                other = parts[start + warp]
                found = cute.arch.fmax(found, other) if largest else found + other
        return found
