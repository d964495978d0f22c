"""The device code of ``faulty_kernels``: doubles a vector, or does not come to that."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

THREADS = 128
FAR = 1 << 45  # elements behind a tensor, where no memory is
TURNS = 30_000_000_000  # of four clocks: about a minute, so that nothing hangs for ever


@cute.kernel
def double(x: cute.Tensor, out: cute.Tensor, kind: cutlass.Constexpr) -> None:
    """A thread for each element."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(x):
        value = x[i]
        if cutlass.const_expr(kind == "hang"):
            for _ in cutlass.range(cutlass.Int64(TURNS), unroll=1):
                value = value * 0.5 + 1.0
        if cutlass.const_expr(kind == "fault"):
            far = cute.make_tensor(out.iterator + cutlass.Int64(FAR), cute.make_layout(1))
            far[0] = value
        result = value * 2.0
        if cutlass.const_expr(kind == "wrong"):
            result = value
        out[i] = result


class Faulty:
    """The host side of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @cute.jit
    def launch(self, x: cute.Tensor, out: cute.Tensor, stream: Any) -> None:
        """Launch one block for each 128 elements, and one for none."""
        blocks = cutlass.max((cute.size(x) + THREADS - 1) // THREADS, 1)
        double(x, out, self.kind).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)


def compile_kind(kind: str) -> Any:
    """Compile one kind. The one that refuses takes vectors of a multiple of 1024 elements only."""
    n = cute.sym_int(divisibility=1024 if kind == "refuse" else 1)

    def vector() -> Any:
        return make_fake_compact_tensor(cutlass.Float32, (n,), stride_order=(0,), assumed_align=4)

    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(Faulty(kind).launch, vector(), vector(), stream, options="--enable-tvm-ffi")
