"""The scores of ``mla_decode``: its first group of four warps computes the weights for itself and the second group."""

from __future__ import annotations

import math
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warpgroup

from precast.kernels.own.attention.device.mla_sums import FREE, WEIGHED, Sums
from precast.kernels.own.attention.latent import GROUP, HEADS, Latent, column, row

_LN_2 = math.log(2.0)


class Scores(Sums):
    """The group that computes scores and the weights of both groups. It also sums the first half of the columns."""

    def __init__(self, latent: Latent, score: Any, weigh: Any, thread: Any) -> None:
        super().__init__(latent, weigh, 0, thread)
        self.score = score

    @cute.jit
    def score_and_sum(
        self,
        work: Any,
        shared: Any,
        scale: cutlass.Float32,
        out: cute.Tensor,
        lse: cute.Tensor | None,
        lse_parts: cute.Tensor,
    ) -> None:
        """Compute the scores and weights of each stage, and sum up the first half of the values.

        A weight is ``2 ** (score - row_max)`` with the largest score of the row so far. When that grows, the sums of
        both groups are first multiplied by a factor. If all scores of a row are minus infinity, 0 is subtracted
        instead."""
        latent, score = self.latent, self.score
        group = score.get_slice(0)
        queries = score.make_fragment_A(group.partition_A(shared.queries))
        latents = score.make_fragment_B(group.partition_B(shared.stages))
        scores = cute.make_rmem_tensor(score.partition_shape_C((HEADS, latent.keys)), cutlass.Float32)
        rounded = cute.make_rmem_tensor(scores.shape, shared.weights.element_type)
        weight_fragment = score.get_slice(self.thread).partition_C(cute.slice_(shared.weights, (None, None, 0)))
        row_max, row_sum = cute.make_rmem_tensor(2, cutlass.Float32), cute.make_rmem_tensor(2, cutlass.Float32)
        scaling = cute.make_rmem_tensor(2, cutlass.Float32)
        row_max.fill(-math.inf)
        row_sum.fill(0)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        if work.steps > 0:
            cute.arch.mbarrier_wait(shared.loaded, 0)
        for step in cutlass.range(work.first, work.first + work.steps, unroll=1):
            scores.fill(0)
            shared.ring.wait_full(stage, parity)
            warpgroup.fence()
            for k in cutlass.range_constexpr(cute.size(queries, mode=[2])):
                cute.gemm(score, scores, queries[None, None, k, 0], latents[None, None, k, stage], scores)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            self.weights(scores, row_max, row_sum, scaling, work.length - step * latent.keys, scale)
            rounded.store(scores.load().to(shared.weights.element_type))
            cute.arch.barrier(barrier_id=FREE, number_of_threads=2 * GROUP)
            cute.autovec_copy(rounded, weight_fragment)
            self.publish_factors(scaling, shared)
            cute.arch.fence_view_async_shared()
            cute.arch.barrier(barrier_id=WEIGHED, number_of_threads=2 * GROUP)
            self.multiply(scaling)
            self.add(shared, stage)
            shared.ring.release(stage)
            stage, parity = shared.ring.after(stage, parity)
        self.finish(row_max, row_sum, scaling, work, out, lse, lse_parts)
        cute.arch.barrier(barrier_id=FREE, number_of_threads=2 * GROUP)
        self.publish_factors(scaling, shared)
        cute.arch.barrier(barrier_id=WEIGHED, number_of_threads=2 * GROUP)
        self.multiply(scaling)

    @cute.jit
    def weights(
        self,
        scores: cute.Tensor,
        row_max: cute.Tensor,
        row_sum: cute.Tensor,
        scaling: cute.Tensor,
        left: cutlass.Int32,
        scale: cutlass.Float32,
    ) -> None:
        """Turn the scores of a stage into weights; those past the end of the sequence (``left`` latents) into zeros."""
        pairs = self.latent.keys // 8
        fragment = cute.make_tensor(scores.iterator, cute.make_layout((2, 2, pairs)))
        scores.store(scores.load() * scale)
        if left < self.latent.keys:
            for half in cutlass.range_constexpr(2):
                for pair in cutlass.range_constexpr(pairs):
                    for i in cutlass.range_constexpr(2):
                        if column(self.thread, pair) + i >= left:
                            fragment[i, half, pair] = cutlass.Float32(-math.inf)
        for half in cutlass.range_constexpr(2):
            best = row_max[half]
            for pair in cutlass.range_constexpr(pairs):
                for i in cutlass.range_constexpr(2):
                    best = cute.arch.fmax(best, fragment[i, half, pair])
            best = cute.arch.warp_reduction_max(best, threads_in_group=4)
            base = best
            if best == -math.inf:
                base = cutlass.Float32(0)
            scaling[half] = cute.arch.exp2(row_max[half] - base)
            row_max[half] = best
            total = row_sum[half] * scaling[half]
            for pair in cutlass.range_constexpr(pairs):
                for i in cutlass.range_constexpr(2):
                    weight = cute.arch.exp2(fragment[i, half, pair] - base)
                    fragment[i, half, pair] = weight
                    total += weight
            row_sum[half] = total

    @cute.jit
    def finish(
        self,
        row_max: cute.Tensor,
        row_sum: cute.Tensor,
        scaling: cute.Tensor,
        work: Any,
        out: cute.Tensor,
        lse: cute.Tensor | None,
        lse_parts: cute.Tensor,
    ) -> None:
        """Compute the factors that normalise the sums, and store the logarithms of the sums of weights."""
        for half in cutlass.range_constexpr(2):
            total = cute.arch.warp_reduction_sum(row_sum[half], threads_in_group=4)
            base, inverse = row_max[half], cutlass.Float32(0)
            if base == -math.inf:
                base = cutlass.Float32(0)
            if total != 0.0:
                inverse = 1.0 / total
            scaling[half] = inverse
            logarithm = (base + cute.math.log2(total)) * _LN_2  # minus infinity where no latent was seen
            head = work.tile * HEADS + row(self.thread, half)
            if self.thread % 4 == 0 and head < out.shape[1]:
                if work.splits > 1:
                    lse_parts[work.split, work.sequence, head] = logarithm
                elif cutlass.const_expr(lse is not None):
                    lse[work.sequence, head] = logarithm

    @cute.jit
    def publish_factors(self, scaling: cute.Tensor, shared: Any) -> None:
        """Store the factors of rows in shared memory, for the other group."""
        if self.thread % 4 == 0:
            for half in cutlass.range_constexpr(2):
                shared.factors[row(self.thread, half)] = scaling[half]
