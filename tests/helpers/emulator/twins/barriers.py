"""Named barriers order what warps of a block do; a dropped one, a wrong count or number is found."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

SHARED = ".shared .align 16 .b8 data[1024];"
EXCHANGE = Kernel(
    module(
        """
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        st.shared.b32 [%r4], %r1;
        bar.sync 0;
        xor.b32 %r5, %r3, 128;
        add.s32 %r6, %r2, %r5;
        ld.shared.b32 %r7, [%r6];
        cvt.u64.u32 %rd2, %r3;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
        """,
        1,
        registers=SHARED,
    ),
    np.arange(64, dtype=np.int32) ^ 32,
    twins=(
        Twin("the barrier is dropped", "bar.sync 0;", "", ("race",), "ld.shared"),
        Twin("the barrier counts one warp", "bar.sync 0;", "bar.sync 0, 32;", ("race",), "ld.shared"),
        Twin("the barrier counts a warp too many", "bar.sync 0;", "bar.sync 0, 96;", ("hang",), "bar.sync"),
        Twin("it counts no whole warps", "bar.sync 0;", "bar.sync 0, 48;", ("barrier",), "bar.sync"),
        Twin("there is no such barrier", "bar.sync 0;", "bar.sync 16;", ("barrier",), "bar.sync"),
    ),
)
HANDOVER = Kernel(
    module(
        """
        mov.b32 %r2, data;
        and.b32 %r3, %r1, 31;
        shl.b32 %r3, %r3, 2;
        add.s32 %r4, %r2, %r3;
        setp.ge.u32 %p1, %r1, 32;
        @%p1 bra consumer;
        mul.lo.s32 %r5, %r1, 3;
        st.shared.b32 [%r4], %r5;
        bar.arrive 1, 64;
        bra.uni done;
        consumer:
        bar.sync 1, 64;
        ld.shared.b32 %r7, [%r4];
        cvt.u64.u32 %rd2, %r3;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
        done:
        ret;
        """,
        1,
        registers=SHARED,
    ),
    np.arange(32, dtype=np.int32) * 3,
    twins=(
        Twin("the arrival is dropped", "bar.arrive 1, 64;", "", ("hang",), "bar.sync"),
        Twin("it arrives at another barrier", "bar.arrive 1, 64;", "bar.arrive 2, 64;", ("hang",), "bar.sync"),
        Twin("the counts differ", "bar.arrive 1, 64;", "bar.arrive 1, 96;", ("barrier",)),
        Twin(
            "it arrives before it writes",
            "st.shared.b32 [%r4], %r5;\n        bar.arrive 1, 64;",
            "bar.arrive 1, 64;\n        st.shared.b32 [%r4], %r5;",
            ("race",),
        ),
        Twin("the wait is dropped", "bar.sync 1, 64;", "", ("race",), "ld.shared"),
    ),
)
VOTES = Kernel(
    module(
        """
        setp.lt.u32 %p1, %r1, 40;
        barrier.cta.red.popc.aligned.u32 %r2, 0, %p1;
        bar.red.and.pred %p2, 1, 64, %p1;
        bar.red.or.pred %p3, 1, !%p1;
        selp.b32 %r3, 100, 0, %p2;
        selp.b32 %r4, 1000, 0, %p3;
        add.s32 %r5, %r2, %r3;
        add.s32 %r5, %r5, %r4;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r5;
        """,
        1,
    ),
    np.full(64, 1040, np.int32),
    twins=(Twin("the vote has one warp", "aligned.u32 %r2, 0, %p1", "aligned.u32 %r2, 0, 32, %p1", ("output",)),),
)
APART = Kernel(  # lanes that parted come to the barrier one after the other
    module(
        """
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        and.b32 %r8, %r1, 1;
        setp.eq.b32 %p1, %r8, 0;
        st.shared.b32 [%r4], %r1;
        @%p1 bra even;
        barrier.sync 0;
        bra.uni join;
        even:
        barrier.sync 0;
        join:
        xor.b32 %r5, %r3, 128;
        add.s32 %r6, %r2, %r5;
        ld.shared.b32 %r7, [%r6];
        cvt.u64.u32 %rd2, %r3;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
        """,
        1,
        registers=SHARED,
    ),
    np.arange(64, dtype=np.int32) ^ 32,
    twins=(Twin("half of the lanes skip it", "even:\n        barrier.sync 0;", "even:", ("race", "hang")),),
)
EARLY_EXIT = Kernel(  # a barrier without a count waits for the threads that have not exited
    module(
        """
        setp.ge.u32 %p1, %r1, 64;
        @%p1 ret;
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        st.shared.b32 [%r4], %r1;
        bar.sync 0;
        xor.b32 %r5, %r3, 128;
        add.s32 %r6, %r2, %r5;
        ld.shared.b32 %r7, [%r6];
        cvt.u64.u32 %rd2, %r3;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
        """,
        1,
        registers=SHARED,
    ),
    np.arange(64, dtype=np.int32) ^ 32,
    block=96,
    twins=(Twin("it counts those that exit", "bar.sync 0;", "bar.sync 0, 96;", ("hang",), "bar.sync"),),
)
GONE_IN_PARTS = Kernel(  # the lanes of a warp that arrive and exit apart count once each, whichever come first
    module(
        """
        mov.b32 %r2, data;
        and.b32 %r3, %r1, 31;
        shl.b32 %r3, %r3, 2;
        add.s32 %r4, %r2, %r3;
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra consumer;
        mul.lo.s32 %r5, %r1, 3;
        st.shared.b32 [%r4], %r5;
        setp.lt.u32 %p2, %r1, 58;
        @%p2 bra most;
        barrier.arrive 1, 64;
        ret;
        most:
        barrier.arrive 1, 64;
        ret;
        consumer:
        barrier.sync 1, 64;
        ld.shared.b32 %r7, [%r4];
        cvt.u64.u32 %rd2, %r3;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
        """,
        1,
        registers=SHARED,
    ),
    np.arange(32, 64, dtype=np.int32) * 3,
    twins=(
        Twin(
            "some arrive twice",
            "most:\n        barrier.arrive 1, 64;",
            "most:\n        barrier.arrive 1, 64;\n        barrier.arrive 1, 64;",
            ("barrier", "race", "hang"),
        ),
    ),
)
KERNELS = {"exchange": EXCHANGE, "handover": HANDOVER, "votes": VOTES, "apart": APART, "early exit": EARLY_EXIT}
KERNELS["gone in parts"] = GONE_IN_PARTS
