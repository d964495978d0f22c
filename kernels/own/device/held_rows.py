"""Rows that stay in the registers of the lanes that share them, in float32: how they are read, and added to."""

from __future__ import annotations

import operator
from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.device.rows import Rows
from precast.kernels.own.device.vectors import at


class HeldRows(Rows):
    """The rows of a block, each lane with its vectors of one, in float32."""

    @cute.jit
    def read(self, tensor: cute.Tensor, base: cutlass.Int64) -> cute.Tensor:
        """This lane's vectors in float32; where it has none, zeros."""
        values = self.registers(cutlass.Float32)
        for i in cutlass.range_constexpr(self.depth):
            held = cute.make_rmem_tensor(self.split.vector, tensor.element_type)
            self.fetch_one(tensor, base, 0, i, held)
            values[None, i].store(held.load().to(cutlass.Float32))
        return values

    @cute.jit
    def accumulate(self, residual: cute.Tensor, base: cutlass.Int64, values: cute.Tensor, mine: Any) -> None:
        """Add the residual to what is held, and store the sum, rounded, in its place.

        A lane without a row of its own reads none, since another lane stores to it meanwhile.
        """
        vector = self.split.vector
        if mine:
            for i in cutlass.range_constexpr(self.depth):
                index = self.index(0, i)
                if index < self.split.vectors:
                    target = at(residual, base + index * vector, vector)
                    held = cute.make_rmem_tensor(vector, residual.element_type)
                    cute.autovec_copy(target, held)
                    total = values[None, i].load() + held.load().to(cutlass.Float32)
                    values[None, i].store(total)
                    held.store(total.to(residual.element_type))
                    cute.autovec_copy(held, target)

    @cute.jit
    def normalise(self, values: cute.Tensor, weights: cute.Tensor, eps: cutlass.Float32) -> None:
        """Divide what is held by the root of its row's mean square, and multiply it by the weights."""
        held = values.load()
        total = self.shared((held * held).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0), operator.add)
        factor = cute.math.rsqrt(total * (1.0 / self.columns) + eps)
        values.store(held * factor * weights.load())
