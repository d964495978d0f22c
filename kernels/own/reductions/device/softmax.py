"""``softmax`` on the device: several lanes share a row, and a block takes as many rows as its threads allow."""

from __future__ import annotations

import math
import operator
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.rows import Rows, matrix
from precast.kernels.own.rows import WARP, Split

_NONE = -math.inf


class Softmax(Rows):
    """``out = exp(x - max(x)) / sum(exp(x - max(x)))``, row by row, computed in float32.

    A row that is held, or staged, is read once, a longer one twice. The largest value and the sum are found in one
    pass, in which the sum is scaled whenever a larger value is met.
    """

    @cute.jit
    def softmax(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch."""
        self.kernel(x, out).launch(
            grid=[self.grid(x), 1, 1],
            block=[self.split.threads, 1, 1],
            cluster=self.cluster_shape,
            stream=stream,
            use_pdl=overlaps(),
        )

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor) -> None:
        """The rows of one block. All its threads take the same branch, so barriers inside it are allowed."""
        wait_for_previous_launch()
        thread, _, _ = cute.arch.thread_idx()
        total, first = cute.size(x, mode=[0]), self.first()
        if first < total:
            row = self.split.row(first, thread)
            # Lanes without a row of their own read and write nothing: the last one may be written in place.
            safe = cutlass.min(row, total - 1)
            source, target = self.offset(x, safe), self.offset(out, safe)
            held = self.registers(x.element_type)
            if cutlass.const_expr(self.held):
                self.fetch(x, source, 0, held, _NONE, self.present(row, total))
            near, start = (self.stage(x, source), 0) if cutlass.const_expr(self.staged) else (x, source)
            self.meet()
            nothing = (cutlass.Float32(_NONE), cutlass.Float32(0))
            mine = self.fold(near, start, held, lambda state, group: self.further(state, held), nothing, _NONE)
            largest, summed = self.whole_row(mine)
            if row < total:
                self.fold(
                    near,
                    start,
                    held,
                    lambda state, group: self.write(out, target, group, held, largest, state),
                    1.0 / summed,
                    _NONE,
                )

    @cute.jit
    def further(self, state: Any, held: cute.Tensor) -> Any:
        """The largest value, and the sum of exponentials over it, with one more group of values."""
        values = held.load().to(cutlass.Float32)
        largest = values.reduce(cute.ReductionOp.MAX, state[0], 0)
        base = finite(largest)
        total = power(values - base).reduce(cute.ReductionOp.ADD, state[1] * power(state[0] - base), 0)
        return largest, total

    @cute.jit
    def whole_row(self, mine: Any) -> Any:
        """The largest value of a row, and the sum of exponentials over it, from those of each lane. Both are
        exchanged together, so that warps wait for each other once."""
        largest, total = together(*mine, min(self.split.lanes, WARP))
        if cutlass.const_expr(self.warps_per_row > 1):
            peaks, sums = self.exchange([largest, total])
            largest, total = self.partial(peaks, 0), self.partial(sums, 0)
            for step in cutlass.range_constexpr(1, self.partials_per_lane):
                peak = self.partial(peaks, step)
                most = cute.arch.fmax(largest, peak)
                total = total * over(largest, most) + self.partial(sums, step) * over(peak, most)
                largest = most
            largest, total = together(largest, total, min(self.warps_per_row, WARP))
        return finite(largest), total

    @cute.jit
    def write(
        self, out: cute.Tensor, base: Any, group: Any, held: cute.Tensor, largest: cutlass.Float32, factor: Any
    ) -> Any:
        """Store the results of a group."""
        for i in cutlass.range_constexpr(self.depth):
            self.store(out, base, group, i, power(held[None, i].load().to(cutlass.Float32) - largest) * factor)
        return factor


@cute.jit
def together(largest: Any, total: Any, lanes: cutlass.Constexpr) -> Any:
    """The same of all lanes in groups of some. A value that is no number is in the sum, whatever is the largest."""
    most = cute.arch.warp_reduction(largest, cute.arch.fmax, threads_in_group=lanes)
    return most, cute.arch.warp_reduction(total * over(largest, most), operator.add, threads_in_group=lanes)


@cute.jit
def over(value: cutlass.Float32, most: cutlass.Float32) -> cutlass.Float32:
    """By what a sum over one value is to be multiplied to be one over a larger value."""
    return power(value - finite(most))


@cute.jit
def power(x: Any) -> Any:
    """The exponential of a number or a vector."""
    return cute.math.exp2(x * math.log2(math.e), fastmath=True)


@cute.jit
def finite(largest: cutlass.Float32) -> cutlass.Float32:
    """What to subtract before an exponential: where all values are minus infinity, a difference would be no number."""
    return cutlass.Float32(0) if largest == -cutlass.Float32.inf else largest


def compile_softmax(dtype: Any, width: int, cluster: int, threads: int, staged: bool) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = Softmax(Split.of(width // cluster, dtype.width, threads), cluster, staged=staged)
    rows = cute.sym_int64()
    x, out = (matrix(dtype, rows, width) for _ in range(2))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.softmax, x, out, stream, options="--enable-tvm-ffi")
