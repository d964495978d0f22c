"""``rmsnorm`` on the device: several lanes share a row, and a block takes as many rows as its threads allow."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_fake_tensor

from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.rows import WARP, Split

_GROUP = 4  # vectors in flight in each lane where a row does not fit in registers


class RmsNorm:
    """``out = x / sqrt(mean(x * x) + eps) * weight``, row by row, computed in float32.

    A row is read from memory once where it fits in the registers of its lanes, else a second time for the output.
    """

    def __init__(self, split: Split) -> None:
        self.split = split

    @cute.jit
    def rmsnorm(self, x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Float32, stream: Any) -> None:
        """Launch; no rows still take one block, which finds nothing to do."""
        rows = cute.size(x, mode=[0])  # x.shape[0] would be cut to 32 bits
        blocks = cutlass.max(cutlass.Int32(self.split.blocks(rows)), 1)
        self.kernel(x, weight, out, eps).launch(grid=[blocks, 1, 1], block=[self.split.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Float32) -> None:
        """The rows of one block. All its threads take the same branch, so a barrier inside it is allowed."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        total = cute.size(x, mode=[0])
        first = cutlass.Int64(block) * self.split.rows
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row of their own read the last one, and write nothing.
            safe = cutlass.min(row, total - 1)
            source, destination = safe * x.stride[0], safe * out.stride[0]
            if cutlass.const_expr(self.split.held):
                self.once(x, weight, out, eps, source, destination, row < total)
            else:
                self.twice(x, weight, out, eps, source, destination, row < total)

    @cute.jit
    def once(
        self, x: Any, weight: Any, out: Any, eps: Any, source: Any, destination: Any, mine: cutlass.Boolean
    ) -> None:
        """Read the row and the weights, keep both in registers, and write from there."""
        held = cute.make_rmem_tensor((self.split.vector, self.split.steps), x.element_type)
        scales = cute.make_rmem_tensor((self.split.vector, self.split.steps), x.element_type)
        self.fetch(x, source, 0, held)
        self.fetch(weight, cutlass.Int64(0), 0, scales)
        factor = self.factor(self.squares(held), eps)
        if mine:
            self.write(out, destination, 0, held, scales, factor)

    @cute.jit
    def twice(
        self, x: Any, weight: Any, out: Any, eps: Any, source: Any, destination: Any, mine: cutlass.Boolean
    ) -> None:
        """Read the row in groups of vectors for its sum, then again, mostly from the L2 cache, for the output."""
        held = cute.make_rmem_tensor((self.split.vector, _GROUP), x.element_type)
        scales = cute.make_rmem_tensor((self.split.vector, _GROUP), x.element_type)
        groups = -(-self.split.steps // _GROUP)
        total = cutlass.Float32(0)
        for group in cutlass.range(groups, unroll=1):
            self.fetch(x, source, group * _GROUP, held)
            total += self.squares(held)
        factor = self.factor(total, eps)
        if mine:
            for group in cutlass.range(groups, unroll=1):
                self.fetch(x, source, group * _GROUP, held)
                self.fetch(weight, cutlass.Int64(0), group * _GROUP, scales)
                self.write(out, destination, group * _GROUP, held, scales, factor)

    @cute.jit
    def fetch(self, tensor: cute.Tensor, base: cutlass.Int64, first: Any, into: cute.Tensor) -> None:
        """Load this lane's vectors from step ``first`` on; where it has none, zeros."""
        for i in cutlass.range_constexpr(cute.size(into, mode=[1])):
            index = self.index(first + i)
            if cutlass.const_expr(self.sure(first, i)):
                cute.autovec_copy(at(tensor, base + index * self.split.vector, self.split.vector), into[None, i])
            else:
                into[None, i].fill(0)
                if index < self.split.vectors:
                    cute.autovec_copy(at(tensor, base + index * self.split.vector, self.split.vector), into[None, i])

    @cute.jit
    def write(
        self, out: cute.Tensor, base: cutlass.Int64, first: Any, held: cute.Tensor, scales: cute.Tensor, factor: Any
    ) -> None:
        """Store this lane's vectors from step ``first`` on."""
        for i in cutlass.range_constexpr(cute.size(held, mode=[1])):
            index = self.index(first + i)
            value = held[None, i].load().to(cutlass.Float32) * factor * scales[None, i].load().to(cutlass.Float32)
            result = cute.make_rmem_tensor(self.split.vector, out.element_type)
            result.store(value.to(out.element_type))
            if cutlass.const_expr(self.sure(first, i)):
                cute.autovec_copy(result, at(out, base + index * self.split.vector, self.split.vector))
            else:
                if index < self.split.vectors:
                    cute.autovec_copy(result, at(out, base + index * self.split.vector, self.split.vector))

    @cute.jit
    def index(self, step: Any) -> Any:
        """The vector of the row that this lane takes in a step."""
        return self.split.index(cute.arch.thread_idx()[0], step)

    def sure(self, first: Any, i: int) -> bool:
        """Whether it is known at compile time that every lane has a vector in step ``first + i``."""
        return isinstance(first, int) and self.split.whole(first + i)

    @cute.jit
    def squares(self, held: cute.Tensor) -> cutlass.Float32:
        """The sum of the squares of what this lane holds."""
        values = held.load().to(cutlass.Float32)
        return (values * values).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0)

    @cute.jit
    def factor(self, mine: cutlass.Float32, eps: cutlass.Float32) -> cutlass.Float32:
        """The factor of a row, from the sums of its lanes: by shuffles in a warp, by shared memory across warps."""
        total = cute.arch.warp_reduction_sum(mine, threads_in_group=min(self.split.lanes, WARP))
        if cutlass.const_expr(self.split.warps > 1):
            thread = cute.arch.thread_idx()[0]
            sums = cute.make_tensor(
                cute.arch.alloc_smem(cutlass.Float32, self.split.threads // WARP),
                cute.make_layout(self.split.threads // WARP),
            )
            if thread % WARP == 0:
                sums[thread // WARP] = total
            cute.arch.sync_threads()
            start = self.split.first_warp(thread)
            total = cutlass.Float32(0)
            for warp in cutlass.range_constexpr(self.split.warps):
                total += sums[start + warp]
        return cute.math.rsqrt(total * (1.0 / (self.split.vectors * self.split.vector)) + eps)


def compile_rmsnorm(dtype: Any, hidden: int, threads: int) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    split = Split.of(hidden, dtype.width, threads)
    rows = cute.sym_int64()

    def matrix() -> Any:
        stride = cute.sym_int64(divisibility=split.vector)
        return make_fake_tensor(dtype, (rows, hidden), (stride, 1), assumed_align=ALIGN)

    weight = make_fake_compact_tensor(dtype, (hidden,), stride_order=(0,), assumed_align=ALIGN)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(
        RmsNorm(split).rmsnorm, matrix(), weight, matrix(), cutlass.Float32(1e-6), stream, options="--enable-tvm-ffi"
    )
