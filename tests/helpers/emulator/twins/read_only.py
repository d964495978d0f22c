"""``ld.global.nc``: of what nothing writes while the kernel runs."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

THREADS = np.arange(64, dtype=np.int32)
PLACES = """
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        add.s64 %rd12, %rd2, %rd10;
"""
OWN = Kernel(  # what the thread itself wrote
    module(
        PLACES
        + """
        mul.lo.s32 %r2, %r1, 3;
        st.global.b32 [%rd11], %r2;
        ld.global.b32 %r3, [%rd11];
        st.global.b32 [%rd12], %r3;
    """,
        2,
    ),
    THREADS * 3,
    scratch=(np.zeros(64, np.int32),),
    twins=(Twin("it is read as constant", "ld.global.b32", "ld.global.nc.b32", ("race",), "ld.global"),),
)
OTHERS = Kernel(  # what another warp wrote before a barrier
    module(
        PLACES
        + """
        mul.lo.s32 %r2, %r1, 3;
        st.global.b32 [%rd11], %r2;
        bar.sync 0;
        xor.b32 %r4, %r1, 32;
        mul.wide.u32 %rd10, %r4, 4;
        add.s64 %rd11, %rd1, %rd10;
        ld.global.b32 %r3, [%rd11];
        st.global.b32 [%rd12], %r3;
    """,
        2,
    ),
    (THREADS ^ 32) * 3,
    scratch=(np.zeros(64, np.int32),),
    twins=(
        Twin("it is read as constant", "ld.global.b32", "ld.global.nc.L1::no_allocate.b32", ("race",), "ld.global"),
        Twin("nothing orders it", "bar.sync 0;", "", ("race",), "ld.global"),
    ),
)
VECTOR = Kernel(  # sixteen bytes, of which the kernel wrote the last four
    module(
        """
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        st.global.b32 [%rd1+12], 7;
        ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd1];
        add.s32 %r2, %r2, %r5;
        st.global.b32 [%rd2], %r2;
    """,
        2,
    ),
    np.array([7], np.int32),
    scratch=(np.zeros(4, np.int32),),
    twins=(Twin("they are read as constant", "ld.global.v4", "ld.global.nc.v4", ("race",), "ld.global"),),
)
INPUT = Kernel(  # an input, beside an output that is written
    module(
        PLACES
        + """
        ld.global.nc.b32 %r3, [%rd11];
        st.global.b32 [%rd12], %r3;
        ld.global.nc.b32 %r3, [%rd11];
        st.global.b32 [%rd12], %r3;
    """,
        2,
    ),
    THREADS,
    inputs=(THREADS,),
)
EARLIER = Kernel(  # what the launch before wrote: each reads the one half and writes the other
    module(
        """
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        ld.global.b32 %r5, [%rd1+256];
        setp.ne.u32 %p1, %r5, 0;
        add.s64 %rd12, %rd2, %rd10;
        @%p1 bra second;
        st.global.b32 [%rd11], %r1;
        bar.sync 0;
        setp.eq.u32 %p2, %r1, 0;
        @%p2 st.global.b32 [%rd1+256], 1;
        ret;
        second:
        ld.global.nc.b32 %r3, [%rd11];
        st.global.b32 [%rd12], %r3;
    """,
        2,
    ),
    THREADS,
    scratch=(np.zeros(65, np.int32),),
    launches=2,
)
KERNELS = {"own": OWN, "others": OTHERS, "vector": VECTOR, "input": INPUT, "earlier": EARLIER}
