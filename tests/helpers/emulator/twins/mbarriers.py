"""Mbarriers hand memory over between warps, blocks and asynchronous stores; what is wrong about one is found."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

SHARED = ".shared .align 16 .b8 data[1024];\n.shared .align 8 .b8 full[8];\n.shared .align 8 .b8 empty[8];"
# A warp writes, another reads; three rounds with one stage.
PIPELINE = Kernel(
    module(
        """
        mov.b32 %r2, data;
        and.b32 %r3, %r1, 31;
        shl.b32 %r3, %r3, 2;
        add.s32 %r4, %r2, %r3;
        mov.b32 %r20, full;
        mov.b32 %r21, empty;
        setp.eq.b32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r20], 32;
        @%p1 mbarrier.init.shared.b64 [%r21], 32;
        bar.sync 0;  // after init
        mov.b32 %r8, 0;
        mov.b32 %r9, 0;
        setp.ge.u32 %p2, %r1, 32;
        @%p2 bra consumer;
        producer:
        xor.b32 %r10, %r9, 1;
        wait_empty:
        mbarrier.try_wait.parity.shared.b64 %p3, [%r21], %r10;
        @!%p3 bra wait_empty;
        mad.lo.s32 %r5, %r8, 100, %r1;
        st.shared.b32 [%r4], %r5;
        mbarrier.arrive.shared.b64 %rd10, [%r20];
        xor.b32 %r9, %r9, 1;
        add.s32 %r8, %r8, 1;
        setp.lt.u32 %p4, %r8, 3;
        @%p4 bra producer;
        bra.uni done;
        consumer:
        mbarrier.try_wait.parity.shared.b64 %p3, [%r20], %r9;
        @!%p3 bra consumer;
        ld.shared.b32 %r7, [%r4];
        mbarrier.arrive.shared.b64 %rd10, [%r21];
        mad.lo.s32 %r11, %r8, 128, %r3;
        cvt.u64.u32 %rd2, %r11;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
        xor.b32 %r9, %r9, 1;
        add.s32 %r8, %r8, 1;
        setp.lt.u32 %p4, %r8, 3;
        @%p4 bra consumer;
        done:
        ret;
        """,
        1,
        registers=SHARED,
    ),
    np.add.outer(np.arange(3) * 100, np.arange(32)).astype(np.int32),
    twins=(
        Twin("the init is not awaited", "bar.sync 0;", "", ("race", "mbarrier")),
        Twin(
            "the arrival is relaxed",
            "mbarrier.arrive.shared.b64 %rd10, [%r20];",
            "mbarrier.arrive.relaxed.cta.shared.b64 %rd10, [%r20];",
            ("race",),
            "ld.shared",
        ),
        Twin(
            "the wait is relaxed",
            "mbarrier.try_wait.parity.shared.b64 %p3, [%r20], %r9;",
            "mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p3, [%r20], %r9;",
            ("race",),
            "ld.shared",
        ),
        Twin("the reader waits for the other parity", "mov.b32 %r9, 0;", "mov.b32 %r9, 1;", ("race", "hang", "output")),
        Twin("more arrivals are expected than come", "[%r20], 32;", "[%r20], 33;", ("hang",)),
        Twin("fewer arrivals are expected than come", "[%r20], 32;", "[%r20], 16;", ("race", "mbarrier", "hang")),
        Twin("an arrival counts for two", "[%r20];\n        xor", "[%r20], 2;\n        xor", ("mbarrier", "hang")),
        Twin("the arrival of readers is dropped", "mbarrier.arrive.shared.b64 %rd10, [%r21];", "", ("hang",)),
        Twin(
            "readers arrive before they read",
            "ld.shared.b32 %r7, [%r4];\n        mbarrier.arrive.shared.b64 %rd10, [%r21];",
            "mbarrier.arrive.shared.b64 %rd10, [%r21];\n        ld.shared.b32 %r7, [%r4];",
            ("race",),
        ),
        Twin(
            "the writer does not wait",
            "@!%p3 bra wait_empty;",
            "",
            ("race",),
        ),
        Twin("it is not initialised", "@%p1 mbarrier.init.shared.b64 [%r21], 32;", "", ("mbarrier",)),
        Twin("its memory is overwritten", "bar.sync 0;", "bar.sync 0;\n@%p1 st.shared.b64 [%r20], 0;", ("mbarrier",)),
    ),
)
# The state of an arrival instead of a parity; an arrival that drops out; pending counts.
STATES = Kernel(
    module(
        """
        mov.b32 %r20, full;
        setp.eq.b32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r20], 64;
        bar.sync 0;
        mbarrier.arrive.shared.b64 %rd10, [%r20];
        first:
        mbarrier.test_wait.shared.b64 %p3, [%r20], %rd10;
        @!%p3 bra first;
        setp.ge.u32 %p2, %r1, 32;
        @%p2 mbarrier.arrive_drop.shared.b64 %rd10, [%r20];
        @%p2 bra done;
        mbarrier.arrive.shared.b64 %rd10, [%r20];
        second:
        mbarrier.try_wait.shared.b64 %p3, [%r20], %rd10;
        @!%p3 bra second;
        mbarrier.arrive.noComplete.shared.b64 %rd11, [%r20], 0;
        done:
        mbarrier.pending_count.b64 %r5, %rd10;
        setp.le.u32 %p4, %r5, 64;
        selp.b32 %r6, 1, 0, %p4;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r6;
        """.replace("        mbarrier.arrive.noComplete.shared.b64 %rd11, [%r20], 0;\n", ""),
        1,
        registers=SHARED,
    ),
    np.ones(64, np.int32),
    twins=(
        Twin(
            "half of the threads do not drop out",
            "@%p2 mbarrier.arrive_drop",
            "@%p3 mbarrier.arrive_drop",
            ("hang", "mbarrier"),
        ),
        Twin(
            "it may not complete, and does",
            "mbarrier.arrive.shared.b64 %rd10, [%r20];\n        first",
            "mbarrier.arrive.noComplete.release.cta.shared.b64 %rd10, [%r20], 1;\n        first",
            ("mbarrier",),
        ),
    ),
)
# Block 0 of a cluster stores into block 1, which waits for the bytes.
REMOTE = Kernel(
    module(
        """
        mov.b32 %r2, data;
        mov.b32 %r20, full;
        mov.u32 %r3, %cluster_ctarank;
        setp.eq.b32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r20], 1;
        fence.mbarrier_init.release.cluster;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 %rd10, [%r20], 128;
        barrier.cluster.arrive.relaxed;
        barrier.cluster.wait;
        setp.ne.b32 %p2, %r3, 0;
        @%p2 bra receive;
        shl.b32 %r4, %r1, 2;
        add.s32 %r5, %r2, %r4;
        mov.b32 %r12, 1;
        mapa.shared::cluster.u32 %r6, %r5, %r12;
        mapa.shared::cluster.u32 %r7, %r20, 1;
        mul.lo.s32 %r8, %r1, 5;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%r6], %r8, [%r7];
        bra.uni done;
        receive:
        mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;
        @!%p3 bra receive;
        shl.b32 %r4, %r1, 2;
        add.s32 %r5, %r2, %r4;
        ld.shared.b32 %r9, [%r5];
        cvt.u64.u32 %rd2, %r4;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r9;
        done:
        barrier.cluster.arrive;
        barrier.cluster.wait;
        """,
        1,
        registers=SHARED,
    ),
    np.arange(32, dtype=np.int32) * 5,
    block=32,
    grid=2,
    cluster=2,
    twins=(
        Twin("more bytes are expected", "[%r20], 128;", "[%r20], 132;", ("hang",)),
        Twin("fewer bytes are expected", "[%r20], 128;", "[%r20], 124;", ("hang", "race", "copy", "mbarrier")),
        Twin("the wait is dropped", "@!%p3 bra receive;", "", ("race", "copy"), "ld.shared.b32 %r9"),
        Twin("the init is not fenced", "fence.mbarrier_init.release.cluster;", "", ("race",), "st.async"),
        Twin(
            "the cluster is not awaited",
            "barrier.cluster.arrive.relaxed;\n        barrier.cluster.wait;",
            "",
            ("race", "mbarrier", "out of bounds"),
        ),
        Twin("the mbarrier is in another block", "%r7, %r20, 1;", "%r7, %r20, 0;", ("mbarrier",), "st.async"),
        Twin("it is not a block of the cluster", "%r7, %r20, 1;", "%r7, %r20, 2;", ("mbarrier",), "st.async"),
    ),
)
KERNELS = {"pipeline": PIPELINE, "states": STATES, "remote": REMOTE}
