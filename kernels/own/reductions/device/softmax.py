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

    A row in registers, or staged, is read once, a longer one twice. The largest value and the sum are computed in one
    pass, which rescales the sum whenever it finds a larger value.
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
            # Lanes without a row read and write nothing, at the offset of the last row: it may be overwritten in place.
            safe = cutlass.min(row, total - 1)
            source, target = self.offset(x, safe), self.offset(out, safe)
            vectors = self.registers(x.element_type)
            if cutlass.const_expr(self.in_registers):
                self.fetch(x, source, 0, vectors, _NONE, self.present(row, total))
            near, start = (self.stage(x, source), 0) if cutlass.const_expr(self.staged) else (x, source)
            self.cluster_barrier()
            nothing = (cutlass.Float32(_NONE), cutlass.Float32(0))
            lane_state = self.fold(
                near, start, vectors, lambda state, group: self.further(state, vectors), nothing, _NONE
            )
            largest, summed = self.whole_row(lane_state)
            if row < total:
                self.fold(
                    near,
                    start,
                    vectors,
                    lambda state, group: self.write(out, target, group, vectors, largest, state),
                    1.0 / summed,
                    _NONE,
                )

    @cute.jit
    def further(self, state: Any, vectors: cute.Tensor) -> Any:
        """The largest value, and the sum of exponentials relative to it, with one more group of values."""
        values = vectors.load().to(cutlass.Float32)
        largest = values.reduce(cute.ReductionOp.MAX, state[0], 0)
        base = finite(largest)
        total = power(values - base).reduce(cute.ReductionOp.ADD, state[1] * power(state[0] - base), 0)
        return largest, total

    @cute.jit
    def whole_row(self, lane_state: Any) -> Any:
        """The largest value of a row, and the sum of exponentials relative to it, from those of each lane. Both are
        exchanged together, so that warps wait for each other once."""
        largest, total = together(*lane_state, min(self.split.lanes, WARP))
        if cutlass.const_expr(self.warps_per_row > 1):
            peaks, sums = self.exchange([largest, total])
            largest, total = self.partial(peaks, 0), self.partial(sums, 0)
            for step in cutlass.range_constexpr(1, self.partials_per_lane):
                peak = self.partial(peaks, step)
                new_max = cute.arch.fmax(largest, peak)
                total = total * over(largest, new_max) + self.partial(sums, step) * over(peak, new_max)
                largest = new_max
            largest, total = together(largest, total, min(self.warps_per_row, WARP))
        return finite(largest), total

    @cute.jit
    def write(
        self, out: cute.Tensor, base: Any, group: Any, vectors: cute.Tensor, largest: cutlass.Float32, factor: Any
    ) -> Any:
        """Store the results of a group."""
        for i in cutlass.range_constexpr(self.depth):
            self.store(out, base, group, i, power(vectors[None, i].load().to(cutlass.Float32) - largest) * factor)
        return factor


@cute.jit
def together(largest: Any, total: Any, lanes: cutlass.Constexpr) -> Any:
    """Combine the largest values and the sums of groups of lanes. ``fmax`` drops NaN, but the sum keeps it."""
    new_max = cute.arch.warp_reduction(largest, cute.arch.fmax, threads_in_group=lanes)
    return new_max, cute.arch.warp_reduction(total * over(largest, new_max), operator.add, threads_in_group=lanes)


@cute.jit
def over(value: cutlass.Float32, new_max: cutlass.Float32) -> cutlass.Float32:
    """The factor that makes a sum relative to one value a sum relative to a larger one."""
    return power(value - finite(new_max))


@cute.jit
def power(x: Any) -> Any:
    """The exponential of a number or a vector."""
    return cute.math.exp2(x * math.log2(math.e), fastmath=True)


@cute.jit
def finite(largest: cutlass.Float32) -> cutlass.Float32:
    """What to subtract before an exponential: if all values are minus infinity, their difference would be NaN."""
    return cutlass.Float32(0) if largest == -cutlass.Float32.inf else largest


def compile_softmax(dtype: Any, width: int, cluster: int, threads: int, staged: bool) -> Any:
    """Compile for one dtype and row length: rows and their strides are free, each row aligned to 16 bytes."""
    operation = Softmax(Split.of(width // cluster, dtype.width, threads), cluster, staged=staged)
    rows = cute.sym_int64()
    x, out = (matrix(dtype, rows, width) for _ in range(2))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(operation.softmax, x, out, stream, options="--enable-tvm-ffi")
