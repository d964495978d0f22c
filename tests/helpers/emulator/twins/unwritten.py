"""Registers and memory that are read before they are written, behind what hides a NaN; and reads that do not matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.helpers.emulator.synchronisation import Array, Kernel, Twin, module

SPACES = ".shared .align 16 .b8 data[256];\n.local .align 16 .b8 mine[64];\n.reg .f32 %f<8>;"
VALUES = np.arange(48, dtype=np.int32) + 3


def row(first: str, step: str, last: str, tail: str) -> str:
    """A row of 48 values in shared memory, with a tail of 16 more, of which each thread reads all, one after the other.

    ``%r9`` is the result, ``%r7`` the value that a step reads.
    """
    return module(
        f"""
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        setp.lt.u32 %p1, %r1, 48;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        add.s64 %rd12, %rd2, %rd10;
        mov.b32 %r7, {tail};
        @%p1 ld.global.b32 %r7, [%rd11];
        st.shared.b32 [%r4], %r7;  // the tail, too
        bar.sync 0;
        mov.b32 %r8, 0;
        {first}
        again:
        add.s32 %r4, %r2, %r8;
        ld.shared.b32 %r7, [%r4];
        {step}
        add.s32 %r8, %r8, 4;
        setp.lt.u32 %p2, %r8, 256;
        @%p2 bra again;
        {last}
        st.global.b32 [%rd12], %r9;
        """,
        2,
        registers=SPACES,
    )


STORE = "st.shared.b32 [%r4], %r7;  //"
TAIL = Twin("the tail is not written", f"{STORE} the", f"@%p1 {STORE}", ("output",))


def reduction(first: str, step: str, result: object, *, values: Array = VALUES, tail: str = "0", last: str = "",
              twins: Sequence[Twin] = ()) -> Kernel:  # fmt: skip
    """A reduction of the row, whose wrong twin leaves out the tail."""
    output = np.full(64, result, values.dtype)
    return Kernel(row(first, step, last, tail), output, inputs=(values,), twins=(TAIL, *twins))


REAL = VALUES.astype(np.float32)
READ, MADE = "mov.b32 %f1, %r7;", "mov.b32 %r9, %f2;"
LOWEST, HIGHEST = "0fFF7FFFFF", "0f7F7FFFFF"  # of float32
UNSET = "the first value is not set"
MAX = reduction(
    f"mov.b32 %f2, {LOWEST};", f"{READ} max.f32 %f2, %f2, %f1;", REAL.max(), values=REAL, tail=LOWEST, last=MADE,
    twins=(Twin(UNSET, f"mov.b32 %f2, {LOWEST};", "", ("output",)),),
)  # fmt: skip
MIN = reduction(
    f"mov.b32 %f2, {HIGHEST};", f"{READ} min.f32 %f2, %f2, %f1;", REAL.min(), values=REAL, tail=HIGHEST, last=MADE,
    twins=(Twin(UNSET, f"mov.b32 %f2, {HIGHEST};", "", ("output",)),),
)  # fmt: skip
WHOLE_MAX = reduction(
    "mov.b32 %r9, -2147483648;", "max.s32 %r9, %r9, %r7;", VALUES.max(),
    twins=(Twin(UNSET, "mov.b32 %r9, -2147483648;", "", ("output",)),),
)  # fmt: skip
WHOLE_MIN = reduction("mov.b32 %r9, 2147483647;", "min.s32 %r9, %r9, %r7;", VALUES.min(), tail="2147483647")
BELOW = reduction(
    "mov.b32 %r9, 0;",
    f"{READ} setp.lt.f32 %p3, %f1, 0f41200000; selp.b32 %r10, 1, 0, %p3; add.s32 %r9, %r9, %r10;",
    7,
    values=REAL,
    tail=HIGHEST,
    last="cvt.rn.f32.s32 %f2, %r9; mov.b32 %r9, %f2;",
)
ABOVE = reduction(
    "mov.b32 %r9, 0;",
    f"{READ} setp.gt.f32 %p3, %f1, 0f41200000; selp.b32 %r10, 1, 0, %p3; add.s32 %r9, %r9, %r10;",
    40,
    values=REAL,
    tail="0",
    last="cvt.rn.f32.s32 %f2, %r9; mov.b32 %r9, %f2;",
)
ZEROS = reduction(  # a flag that is not set
    "mov.b32 %r9, 0;", "setp.eq.s32 %p3, %r7, 0; selp.b32 %r10, 1, 0, %p3; add.s32 %r9, %r9, %r10;", 0, tail="1"
)  # fmt: skip
NEGATIVES = reduction(
    "mov.b32 %r9, 0;", "shr.u32 %r10, %r7, 31; add.s32 %r9, %r9, %r10;", 0, tail="1"
)  # fmt: skip
RELU = reduction(
    "mov.b32 %r9, 0;", f"{READ} max.f32 %f1, %f1, 0f00000000; cvt.rni.s32.f32 %r10, %f1; min.s32 %r10, %r10, 60;"
    " add.s32 %r9, %r9, %r10;", int(VALUES.sum()), values=REAL, last="cvt.rn.f32.s32 %f2, %r9; mov.b32 %r9, %f2;",
)  # fmt: skip
# The tail is read, and no result depends on it.
MASKED = Kernel(
    row("mov.b32 %r9, 0;", "setp.lt.u32 %p3, %r8, 192; selp.b32 %r7, %r7, 0, %p3; max.s32 %r9, %r9, %r7;", "", "0")
    .replace(STORE, f"@%p1 {STORE}"),
    np.full(64, VALUES.max(), np.int32),
    inputs=(VALUES,),
    twins=(Twin("the mask is one too wide", "%r8, 192;", "%r8, 193;", ("output",)),),
)  # fmt: skip
DISCARDED = Kernel(  # what was computed of it is not stored
    row("mov.b32 %r9, 0;", "max.s32 %r9, %r9, %r7;", "selp.b32 %r9, %r1, 5, %p1;", "0").replace(STORE, f"@%p1 {STORE}"),
    np.where(np.arange(64) < 48, np.arange(64), 5).astype(np.int32),
    inputs=(VALUES,),
)
CLEARED = Kernel(  # all bits of what was there are cleared
    row("mov.b32 %r9, 0;", "and.b32 %r7, %r7, 0; or.b32 %r9, %r9, %r7;", "", "0").replace(STORE, f"@%p1 {STORE}"),
    np.zeros(64, np.int32),
    inputs=(VALUES,),
    twins=(Twin("one bit is kept", "%r7, 0;", "%r7, 1;", ("output",)),),
)
NANS = Kernel(  # a NaN that the kernel itself writes is dropped by the maximum
    row(f"mov.b32 %f2, {LOWEST};", f"{READ} max.f32 %f2, %f2, %f1;", MADE, "0f7FFF7FFF"),
    np.full(64, REAL.max(), np.float32),
    inputs=(REAL,),
    twins=(TAIL,),
)
PRIVATE = Kernel(  # four values of a thread's own memory
    module(
        """
        st.local.b32 [mine], %r1;
        st.local.b32 [mine+4], 7;
        st.local.b32 [mine+8], 9;
        ld.local.b32 %r2, [mine];
        ld.local.b32 %r3, [mine+4];
        ld.local.b32 %r4, [mine+8];
        max.u32 %r2, %r2, %r3;
        max.u32 %r2, %r2, %r4;
        min.u32 %r2, %r2, 90;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        st.global.b32 [%rd11], %r2;
        """,
        1,
        registers=SPACES,
    ),
    np.maximum(np.arange(64), 9).astype(np.int32),
    twins=(
        Twin("one is not written", "st.local.b32 [mine+8], 9;", "", ("output",)),
        Twin("two are not", "st.local.b32 [mine+4], 7;\n        st.local.b32 [mine+8], 9;", "", ("output",)),
    ),
)
FLAG = Kernel(  # a predicate that a branch sets
    module(
        """
        setp.ne.u32 %p2, %r1, %r1;
        setp.lt.u32 %p1, %r1, 32;
        @%p1 setp.lt.u32 %p2, %r1, 16;
        selp.b32 %r2, 1, 0, %p2;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        st.global.b32 [%rd11], %r2;
        """,
        1,
    ),
    (np.arange(64) < 16).astype(np.int32),
    twins=(Twin("it has no value elsewhere", "setp.ne.u32 %p2, %r1, %r1;", "", ("output",)),),
)
COLUMNS = Kernel(  # tensor memory, of whose two columns both are written
    module(
        """
        mov.b32 %r2, base;
        setp.lt.u32 %p1, %r1, 32;
        @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
        bar.sync 0;
        ld.shared.b32 %r3, [%r2];
        shr.u32 %r4, %r1, 5;
        shl.b32 %r4, %r4, 21;
        add.u32 %r5, %r3, %r4;
        add.u32 %r6, %r5, 1;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1};
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%r1};
        tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r7, %r8}, [%r5];
        tcgen05.wait::ld.sync.aligned;
        max.s32 %r7, %r7, %r8;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        st.global.b32 [%rd11], %r7;
        bar.sync 0;
        @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
        """,
        1,
        registers=".shared .align 16 .b8 base[16];",
    ),
    np.arange(128, dtype=np.int32),
    block=128,
    twins=(
        Twin("one is not", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%r1};", "", ("output",)),
        Twin("it is not freed", "@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;", "", ("tensor memory",)),
    ),
)
KERNELS = {
    "max": MAX, "min": MIN, "whole max": WHOLE_MAX, "whole min": WHOLE_MIN, "below": BELOW, "above": ABOVE,
    "zeros": ZEROS, "negatives": NEGATIVES, "relu": RELU, "masked": MASKED, "discarded": DISCARDED, "cleared": CLEARED,
    "nans": NANS, "private": PRIVATE, "flag": FLAG, "columns": COLUMNS,
}  # fmt: skip
