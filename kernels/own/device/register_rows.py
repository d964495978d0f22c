"""Rows that stay in the registers of the lanes that share them, in float32."""

from __future__ import annotations

import operator
from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.device.rows import Rows
from precast.kernels.own.device.vectors import at


class RegisterRows(Rows):
    """The rows of a block: each lane holds some vectors of a row in registers, in float32."""

    @cute.jit
    def read(self, tensor: cute.Tensor, base: cutlass.Int64, present: Any = True) -> cute.Tensor:
        """This lane's vectors in float32; zeros in place of vectors that it lacks."""
        values = self.registers(cutlass.Float32)
        for i in cutlass.range_constexpr(self.depth):
            loaded = cute.make_rmem_tensor(self.split.vector, tensor.element_type)
            self.fetch_one(tensor, base, 0, i, loaded, 0.0, present)
            values[None, i].store(loaded.load().to(cutlass.Float32))
        return values

    @cute.jit
    def accumulate(self, residual: cute.Tensor, base: cutlass.Int64, values: cute.Tensor, present: Any) -> None:
        """Add the residual to the values, and replace it by the rounded sum."""
        vector = self.split.vector
        for i in cutlass.range_constexpr(self.depth):
            target = at(residual, base + self.index(0, i) * vector, vector)
            has = self.has(0, i, present)
            if cutlass.const_expr(has is True):
                self.accumulate_one(target, values[None, i])
            else:
                if has:
                    self.accumulate_one(target, values[None, i])

    @cute.jit
    def accumulate_one(self, target: cute.Tensor, values: cute.Tensor) -> None:
        """Add one vector of the residual, and replace it."""
        loaded = cute.make_rmem_tensor(self.split.vector, target.element_type)
        cute.autovec_copy(target, loaded)
        total = values.load() + loaded.load().to(cutlass.Float32)
        values.store(total)
        loaded.store(total.to(target.element_type))
        cute.autovec_copy(loaded, target)

    @cute.jit
    def normalise(self, values: cute.Tensor, weights: cute.Tensor, eps: cutlass.Float32) -> None:
        """Divide the values by the root mean square of their row, and multiply them by the weights."""
        x = values.load()
        total = self.shared((x * x).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0), operator.add)
        factor = cute.math.rsqrt(total * (1.0 / self.columns) + eps)
        values.store(x * factor * weights.load())
