"""Bulk copies read shared memory through the async proxy: what was written must be fenced for it, and be awaited."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

SHARED = ".shared .align 128 .b8 data[1024];\n.shared .align 8 .b8 full[8];"
WRITE = """
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        mul.lo.s32 %r5, %r1, 7;
        st.shared.b32 [%r4], %r5;
"""
STORE = """
        setp.ne.b32 %p1, %r1, 0;
        @%p1 bra stored;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 256;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        stored:
        bar.sync 0;  // everyone may write again
        st.shared.b32 [%r4], -1;
"""
OUTPUT = np.arange(64, dtype=np.int32) * 7
WRITER_FENCES = Kernel(
    module(WRITE + "fence.proxy.async.shared::cta;\nbar.sync 0;  // written\n" + STORE, 1, registers=SHARED),
    OUTPUT,
    twins=(
        Twin("the fence is dropped", "fence.proxy.async.shared::cta;", "", ("race",), "cp.async.bulk.global"),
        Twin(
            "the fence is for global memory", "async.shared::cta;", "async.global;", ("race",), "cp.async.bulk.global"
        ),
        Twin("the barrier before is dropped", "bar.sync 0;  // written", "", ("race",), "cp.async.bulk.global"),
        Twin("the barrier after is dropped", "bar.sync 0;  // everyone", "//", ("race", "copy")),
        Twin("the wait is dropped", "cp.async.bulk.wait_group.read 0;", "", ("race", "copy")),
        Twin("one group is left", "wait_group.read 0;", "wait_group.read 1;", ("race", "copy")),
        Twin("the group is not committed", "cp.async.bulk.commit_group;", "", ("race", "copy")),
    ),
)
READER_FENCES = Kernel(
    module(
        WRITE
        + "bar.sync 0;  // written\n"
        + STORE.replace("cp.async.bulk.global", "fence.proxy.async;\ncp.async.bulk.global"),
        1,
        registers=SHARED,
    ),
    OUTPUT,
    twins=(Twin("the fence is dropped", "fence.proxy.async;", "", ("race",), "cp.async.bulk.global"),),
)
LOAD = Kernel(  # what a copy wrote is seen after the mbarrier's wait, without a fence
    module(
        """
        mov.b32 %r2, data;
        mov.b32 %r20, full;
        setp.ne.b32 %p1, %r1, 0;
        @%p1 bra ready;
        mbarrier.init.shared.b64 [%r20], 1;
        fence.mbarrier_init.release.cluster;
        ready:
        bar.sync 0;
        @%p1 bra wait;
        mbarrier.arrive.expect_tx.shared.b64 %rd10, [%r20], 256;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 256, [%r20];
        wait:
        mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;
        @!%p3 bra wait;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        ld.shared.b32 %r7, [%r4];
        cvt.u64.u32 %rd3, %r3;
        add.s64 %rd4, %rd2, %rd3;
        st.global.b32 [%rd4], %r7;
        """,
        2,
        registers=SHARED,
    ),
    OUTPUT,
    inputs=(OUTPUT,),
    twins=(
        Twin("the wait is dropped", "@!%p3 bra wait;", "", ("race", "copy"), "ld.shared"),
        Twin("more bytes are expected", "[%r20], 256;", "[%r20], 272;", ("hang",)),
        Twin("fewer bytes are expected", "[%r20], 256;", "[%r20], 240;", ("hang", "race", "copy", "mbarrier")),
        Twin("fewer bytes are copied", "[%rd1], 256, [%r20]", "[%rd1], 240, [%r20]", ("hang",)),
        Twin("the wait is for the other parity", "[%r20], 0;", "[%r20], 1;", ("race", "copy"), "ld.shared"),
        Twin(
            "bytes are expected without an arrival",
            "mbarrier.arrive.expect_tx.shared.b64 %rd10,",
            "mbarrier.expect_tx.relaxed.cta.shared.b64",
            ("hang",),
        ),
    ),
)
COPIES = Kernel(  # cp.async: a wait of the thread, then a barrier for the others
    module(
        """
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        cvt.u64.u32 %rd3, %r3;
        add.s64 %rd4, %rd1, %rd3;
        cp.async.ca.shared.global [%r4], [%rd4], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        bar.sync 0;
        xor.b32 %r5, %r3, 128;
        add.s32 %r6, %r2, %r5;
        ld.shared.b32 %r7, [%r6];
        add.s64 %rd5, %rd2, %rd3;
        st.global.b32 [%rd5], %r7;
        """,
        2,
        registers=SHARED,
    ),
    OUTPUT[np.arange(64) ^ 32],
    inputs=(OUTPUT,),
    twins=(
        Twin("the wait is dropped", "cp.async.wait_group 0;", "", ("race", "copy"), "ld.shared"),
        Twin("one group is left", "cp.async.wait_group 0;", "cp.async.wait_group 1;", ("race", "copy"), "ld.shared"),
        Twin("the barrier is dropped", "bar.sync 0;", "", ("race", "copy"), "ld.shared"),
        Twin("the group is not committed", "cp.async.commit_group;", "", ("race", "copy"), "ld.shared"),
    ),
)
KERNELS = {"writer fences": WRITER_FENCES, "reader fences": READER_FENCES, "load": LOAD, "cp.async": COPIES}
