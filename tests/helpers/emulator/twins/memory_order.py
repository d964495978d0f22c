"""Global memory between blocks: acquire and release, or fences, order it; relaxed accesses do not."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module


def flag(write: str, read: str, before: str = "", after: str = "") -> str:
    """Block 0 writes and raises a flag; block 1 waits for it and reads."""
    return module(
        f"""
        mov.u32 %r2, %ctaid.x;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        add.s64 %rd12, %rd3, %rd10;
        setp.ne.b32 %p1, %r2, 0;
        @%p1 bra reader;
        mul.lo.s32 %r3, %r1, 9;
        st.global.b32 [%rd11], %r3;
        bar.sync 0;  // all have written
        setp.ne.b32 %p2, %r1, 0;
        @%p2 bra done;
        {before}
        {write}
        bra.uni done;
        reader:
        setp.ne.b32 %p2, %r1, 0;
        @%p2 bra ready;
        again:
        {read}
        setp.eq.b32 %p3, %r5, 0;
        @%p3 bra again;
        {after}
        ready:
        bar.sync 0;  // the flag is up
        ld.global.b32 %r6, [%rd11];
        st.global.b32 [%rd12], %r6;
        done:
        ret;
        """,
        3,
    )


OUTPUT = np.arange(64, dtype=np.int32) * 9
SCRATCH = (np.zeros(64, np.int32), np.zeros(1, np.int32))
RELEASE = Kernel(
    flag("st.release.gpu.global.b32 [%rd2], 1;", "ld.acquire.gpu.global.b32 %r5, [%rd2];"),
    OUTPUT,
    scratch=SCRATCH,
    grid=2,
    twins=(
        Twin("the store is relaxed", "st.release.gpu", "st.relaxed.gpu", ("race",), "ld.global.b32 %r6"),
        Twin("the load is relaxed", "ld.acquire.gpu", "ld.relaxed.gpu", ("race",), "ld.global.b32 %r6"),
        Twin("the store is weak", "st.release.gpu.global", "st.global", ("race",)),
        Twin("the scope is the block", "st.release.gpu", "st.release.cta", ("race",), "ld.global.b32 %r6"),
        Twin("others have not written", "bar.sync 0;  // all", "//", ("race",), "ld.global.b32 %r6"),
        Twin("others do not wait", "bar.sync 0;  // the flag", "//", ("race",), "ld.global.b32 %r6"),
    ),
)
FENCES = Kernel(
    flag(
        "atom.relaxed.gpu.global.add.u32 %r4, [%rd2], 1;",
        "ld.relaxed.gpu.global.b32 %r5, [%rd2];",
        "fence.acq_rel.gpu;",
        "membar.gl;",
    ),
    OUTPUT,
    scratch=SCRATCH,
    grid=2,
    twins=(
        Twin("the fence of the writer is dropped", "fence.acq_rel.gpu;", "", ("race",), "ld.global.b32 %r6"),
        Twin("the fence of the reader is dropped", "membar.gl;", "", ("race",), "ld.global.b32 %r6"),
        Twin("the fence is for the block", "fence.acq_rel.gpu;", "fence.acq_rel.cta;", ("race",), "ld.global.b32 %r6"),
    ),
)
EXCHANGE = Kernel(
    flag("atom.release.gpu.global.exch.b32 %r4, [%rd2], 1;", "atom.acquire.gpu.global.cas.b32 %r5, [%rd2], 1, 0;"),
    OUTPUT,
    scratch=SCRATCH,
    grid=2,
    twins=(
        Twin("the exchange is relaxed", "atom.release.gpu", "atom.relaxed.gpu", ("race",), "ld.global.b32 %r6"),
        Twin("the comparison is relaxed", "atom.acquire.gpu", "atom.relaxed.gpu", ("race",), "ld.global.b32 %r6"),
    ),
)
SAME_PLACE = Kernel(  # two blocks write the same words
    module(
        """
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        mov.u32 %r2, %ctaid.x;
        shl.b32 %r3, %r2, 8;
        cvt.u64.u32 %rd12, %r3;
        add.s64 %rd11, %rd11, %rd12;
        st.global.b32 [%rd11], %r1;
        """,
        1,
    ),
    np.concatenate([np.arange(64), np.arange(64)]).astype(np.int32),
    grid=2,
    twins=(Twin("the blocks are not apart", "shl.b32 %r3, %r2, 8;", "shl.b32 %r3, %r2, 7;", ("race",), "st.global"),),
)
KERNELS = {"release": RELEASE, "fences": FENCES, "exchange": EXCHANGE, "same place": SAME_PLACE}
