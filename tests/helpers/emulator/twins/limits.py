"""Launches that no GPU takes, and blocks that wait for blocks which have no room beside them."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

KB = 1024
STORE = Kernel(
    module("mul.wide.u32 %rd10, %r1, 4; add.s64 %rd11, %rd1, %rd10; st.global.b32 [%rd11], %r1;", 1),
    np.arange(1024, dtype=np.int32),
    block=1024,
    registers=64,
    shared=227 * KB,
    twins=(
        Twin("too many threads", "", "", ("launch",), launch={"block": 1056}),
        Twin("too many registers", "", "", ("launch",), launch={"registers": 72}),
        Twin("too much shared memory", "", "", ("launch",), launch={"shared": 227 * KB + 1}),
        Twin("too much shared memory for the target", "sm_100a", "sm_120a", ("launch",)),
        Twin("a static part, too", "st.global", ".shared .b8 tile[16]; mov.b32 %r9, tile; st.global", ("launch",)),
        Twin("too large a cluster", "", "", ("launch",), launch={"grid": 32, "cluster": 32}),
        Twin("a grid that is no multiple of the cluster", "", "", ("launch",), launch={"grid": 3, "cluster": 2}),
    ),
)
# All blocks wait until all have come: eight, on four multiprocessors.
GATHER = Kernel(
    module(
        """
        mov.u32 %r2, %ctaid.x;
        mov.u32 %r9, %nctaid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra met;
        atom.acq_rel.gpu.global.add.u32 %r3, [%rd1], 1;
        again:
        ld.acquire.gpu.global.b32 %r4, [%rd1];
        setp.lt.u32 %p2, %r4, %r9;
        @%p2 bra again;
        mul.wide.u32 %rd10, %r2, 4;
        add.s64 %rd11, %rd2, %rd10;
        st.global.b32 [%rd11], %r4;
        met:
        bar.sync 0;
        """,
        2,
    ),
    np.full(8, 8, np.int32),
    scratch=(np.zeros(1, np.int32),),
    grid=8,
    block=1024,
    multiprocessors=4,
    registers=32,
    shared=100 * KB,
    twins=(
        Twin("a block too many", "", "", ("hang",), launch={"grid": 9}),
        Twin("their registers leave no room", "", "", ("hang",), launch={"registers": 33}),
        Twin("their shared memory leaves no room", "", "", ("hang",), launch={"shared": 114 * KB}),
        Twin("the GPU has fewer threads", "sm_100a", "sm_120a", ("hang",), launch={"shared": 0}),
        Twin("the GPU is smaller", "", "", ("hang",), launch={"multiprocessors": 3}),
        Twin("all count as one", "add.u32 %r3, [%rd1], 1", "max.u32 %r3, [%rd1], 1", ("hang",)),
    ),
)
PAIRS = Kernel(  # the same in clusters, of which a GPU runs fewer at once than it has room for blocks
    GATHER.text,
    np.full(8, 8, np.int32),
    scratch=(np.zeros(1, np.int32),),
    grid=8,
    block=1024,
    cluster=2,
    multiprocessors=8,
    registers=64,
    clusters={2: 4},
    twins=(
        Twin("too few clusters", "", "", ("hang",), launch={"clusters": {2: 3}}),
        Twin("larger clusters", "", "", ("hang",), launch={"cluster": 4, "clusters": {2: 4, 4: 1}}),
    ),
)
KERNELS = {"store": STORE, "gather": GATHER, "pairs": PAIRS}
