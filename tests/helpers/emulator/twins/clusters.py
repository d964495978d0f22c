"""The cluster's barrier orders accesses of each other's shared memory, and ends before a block does."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

# Each block reads what the other wrote into its own shared memory.
PEERS = Kernel(
    module(
        """
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        mov.u32 %r5, %cluster_ctarank;
        mad.lo.s32 %r6, %r5, 1000, %r1;
        st.shared.b32 [%r4], %r6;
        barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned;
        xor.b32 %r7, %r5, 1;
        mapa.shared::cluster.u32 %r8, %r4, %r7;
        ld.shared::cluster.b32 %r9, [%r8];
        barrier.cluster.arrive;
        mad.lo.s32 %r10, %r5, 256, %r3;
        cvt.u64.u32 %rd2, %r10;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r9;
        barrier.cluster.wait;
        """,
        1,
        registers=".shared .align 16 .b8 data[1024];",
    ),
    np.add.outer(np.array([1000, 0]), np.arange(64)).astype(np.int32),
    grid=2,
    cluster=2,
    twins=(
        Twin(
            "the arrival is relaxed",
            "arrive.release.aligned",
            "arrive.relaxed.aligned",
            ("race",),
            "ld.shared::cluster",
        ),
        Twin("the wait is relaxed", "wait.acquire.aligned", "wait.relaxed.aligned", ("race",), "ld.shared::cluster"),
        Twin("the wait is dropped", "barrier.cluster.wait.acquire.aligned;", "", ("race", "barrier", "out of bounds")),
        Twin("the arrival is dropped", "barrier.cluster.arrive.release.aligned;", "", ("barrier",), "wait.acquire"),
    ),
)
KERNELS = {"peers": PEERS}
