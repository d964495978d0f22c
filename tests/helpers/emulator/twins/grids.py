"""Grids after each other, schedulers that take clusters away, and what needs a whole warp."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

# Each grid doubles what the one before has left, and adds one.
DEPENDENT = Kernel(
    module(
        """
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        griddepcontrol.launch_dependents;
        griddepcontrol.wait;
        ld.global.b32 %r2, [%rd11];
        mad.lo.s32 %r2, %r2, 2, 1;
        st.global.b32 [%rd11], %r2;
        """,
        1,
    ),
    np.full(64, 7, np.int32),
    launches=3,
    overlap=True,
    twins=(Twin("the wait is dropped", "griddepcontrol.wait;", "", ("race",), "st.global"),),
)
# A block takes others away until there is none: each writes its number for all that it did.
SCHEDULER = Kernel(
    module(
        """
        mov.b32 %r20, full;
        mov.b32 %r21, response;
        mov.u32 %r2, %ctaid.x;
        mov.b32 %r9, 0;
        setp.eq.b32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r20], 1;
        fence.mbarrier_init.release.cluster;
        bar.sync 0;
        work:
        mad.lo.s32 %r3, %r2, 64, %r1;
        mul.wide.u32 %rd10, %r3, 4;
        add.s64 %rd11, %rd1, %rd10;
        st.global.b32 [%rd11], %r3;
        @!%p1 bra wait;
        mbarrier.arrive.expect_tx.shared.b64 %rd12, [%r20], 16;
        clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r21], [%r20];
        wait:
        mbarrier.try_wait.parity.shared.b64 %p3, [%r20], %r9;
        @!%p3 bra wait;
        xor.b32 %r9, %r9, 1;
        ld.shared.b128 %rq1, [%r21];
        fence.proxy.async.shared::cta;
        bar.sync 0;  // all have read it
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %rq1;
        @!%p4 bra done;
        clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2, %r5, %r6, _}, %rq1;
        bra.uni work;
        done:
        ret;
        """,
        1,
        registers=".reg .b128 %rq<2>;\n.shared .align 8 .b8 full[8];\n.shared .align 16 .b8 response[16];",
    ),
    np.arange(64 * 12, dtype=np.int32),
    grid=12,
    twins=(
        Twin("the response is not awaited", "@!%p3 bra wait;", "", ("race", "copy", "hang")),
        Twin("the next response comes while some read", "bar.sync 0;  // all", "//", ("race", "copy", "hang")),
    ),
)
TOGETHER = Kernel(
    module(
        """
        and.b32 %r2, %r1, 31;
        setp.lt.u32 %p1, %r2, 16;
        mov.b32 %r3, 0;
        @%p1 bra low;
        add.s32 %r3, %r3, 5;
        bra.uni join;
        low:
        add.s32 %r3, %r3, 3;
        join:
        bar.warp.sync -1;
        setmaxnreg.inc.sync.aligned.u32 64;
        nanosleep.u32 20;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        st.global.b32 [%rd11], %r3;
        """,
        1,
    ),
    np.where(np.arange(64) % 32 < 16, 3, 5).astype(np.int32),
    twins=(
        Twin(
            "half of the warp does not come", "bar.warp.sync -1;", "@%p1 bar.warp.sync -1;", ("divergence",), "bar.warp"
        ),
        Twin("registers are asked for by half", "setmaxnreg", "@%p1 setmaxnreg", ("divergence",), "setmaxnreg"),
        Twin("a lane is not a member", "bar.warp.sync -1;", "bar.warp.sync 255;", ("divergence",), "bar.warp"),
        Twin("members never come", "low:\n", "low:\n bar.warp.sync -1; ret;\n", ("divergence", "hang")),
    ),
)
KERNELS = {"dependent": DEPENDENT, "scheduler": SCHEDULER, "together": TOGETHER}
