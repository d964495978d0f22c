"""A warm-up: the first compilation of a process takes 0.2 s longer than the next ones, so a small kernel goes first."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream


@cute.kernel  # type: ignore[untyped-decorator]
def _fill(x: cute.Tensor) -> None:
    x[cute.arch.block_idx()[0]] = 0


@cute.jit  # type: ignore[untyped-decorator]
def _launch(x: cute.Tensor, stream) -> None:  # type: ignore[no-untyped-def]
    _fill(x).launch(grid=(cute.size(x), 1, 1), block=(1, 1, 1), stream=stream)


def compile_once() -> object:
    """Compile the kernel with the usual options."""
    x = make_fake_compact_tensor(cutlass.Int32, (cute.sym_int(),), assumed_align=4)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(_launch, x, stream, options="--enable-tvm-ffi")
