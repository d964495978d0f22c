"""Combines the partial results of the splits of ``mla_decode``: a block for each head of a sequence."""

from __future__ import annotations

import math
from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.attention.latent import GROUP, VALUES, WARP
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.vectors import at

_VECTOR = VALUES // GROUP  # elements of a thread
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)


@cute.jit
def combine(
    out_parts: cute.Tensor, lse_parts: cute.Tensor, out: cute.Tensor, lse: cute.Tensor | None, stream: Any
) -> None:
    """Launch; there is at least one head, and at least one split."""
    blocks = cutlass.Int32(out.shape[0]) * cutlass.Int32(out.shape[1])
    kernel(out_parts, lse_parts, out, lse).launch(
        grid=[blocks, 1, 1], block=[GROUP, 1, 1], stream=stream, use_pdl=overlaps()
    )


@cute.kernel
def kernel(out_parts: cute.Tensor, lse_parts: cute.Tensor, out: cute.Tensor, lse: cute.Tensor | None) -> None:
    """Partial results are weighted by the exponentials of their ``lse``. One of minus infinity has seen no latents, and
    its workspace was not written: it is loaded like the others, so that all loads are in flight together, and ignored.
    """
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    wait_for_previous_launch()
    heads = cutlass.Int32(out.shape[1])
    splits, sequence, head = cutlass.Int32(lse_parts.shape[0]), block // heads, block % heads
    lse_max = cutlass.Float32(-math.inf)
    for split in cutlass.range(thread % WARP, splits, WARP, unroll=1):
        lse_max = cute.arch.fmax(lse_max, lse_parts[split, sequence, head])
    lse_max = cute.arch.warp_reduction_max(lse_max)
    base = lse_max
    if lse_max == -math.inf:
        base = cutlass.Float32(0)
    weight_sum = cutlass.Float32(0)
    total, part = cute.make_rmem_tensor(_VECTOR, cutlass.Float32), cute.make_rmem_tensor(_VECTOR, cutlass.Float32)
    total.fill(0)
    for split in cutlass.range(splits, unroll=8):
        split_lse = lse_parts[split, sequence, head]
        offset = cutlass.Int64(split) * out_parts.stride[0] + cutlass.Int64(block) * VALUES + thread * _VECTOR
        cute.autovec_copy(at(out_parts, offset, _VECTOR), part)
        weight = cute.arch.exp2((split_lse - base) * _LOG2_E)
        weight_sum += weight
        for i in cutlass.range_constexpr(_VECTOR):
            value = part[i] * weight
            if split_lse == -math.inf:
                value = cutlass.Float32(0)
            total[i] = total[i] + value
    inverse = cutlass.Float32(0)
    if weight_sum != 0.0:
        inverse = 1.0 / weight_sum
    result = cute.make_rmem_tensor(_VECTOR, out.element_type)
    result.store((total.load() * inverse).to(out.element_type))
    offset = cutlass.Int64(sequence) * out.stride[0] + cutlass.Int64(head) * out.stride[1] + thread * _VECTOR
    cute.autovec_copy(result, at(out, offset, _VECTOR))
    if cutlass.const_expr(lse is not None):
        logarithm = base + cute.math.log2(weight_sum) * _LN_2  # minus infinity where no latent was seen
        if thread == 0:
            lse[sequence, head] = logarithm
