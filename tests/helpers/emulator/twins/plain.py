"""Without any synchronisation to get wrong: bounds, alignment, inputs, places."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

COUNT = 60  # of 64 threads
VALUES = np.arange(COUNT, dtype=np.int32) * 5 + 1
COPY = Kernel(
    module(
        """
        setp.ge.u32 %p1, %r1, 60;
        mul.wide.u32 %rd10, %r1, 4;
        add.s64 %rd11, %rd1, %rd10;
        add.s64 %rd12, %rd2, %rd10;
        @!%p1 ld.global.b32 %r2, [%rd11];
        @!%p1 st.global.b32 [%rd12], %r2;
        """,
        2,
    ),
    VALUES,
    inputs=(VALUES,),
    twins=(
        Twin("the guard of the load is dropped", "@!%p1 ld", "ld", ("out of bounds",), "ld.global"),
        Twin("the guard of the store is dropped", "@!%p1 st", "st", ("out of bounds",), "st.global"),
        Twin("one too many is read", "%r1, 60;", "%r1, 61;", ("out of bounds",)),
        Twin("the last is not written", "%r1, 60;", "%r1, 59;", ("output",)),
        Twin(
            "it begins before the input",
            "ld.global.b32 %r2, [%rd11];",
            "ld.global.b32 %r2, [%rd11-4];",
            ("out of bounds",),
            "ld.global",
        ),
        Twin("it is off by a byte", "[%rd11];", "[%rd11+1];", ("misaligned", "out of bounds"), "ld.global"),
        Twin("it writes to the input", "[%rd12], %r2;", "[%rd11], %r2;", ("write to an input",), "st.global"),
        Twin(
            "neighbours change places",
            "add.s64 %rd12, %rd2, %rd10;",
            "xor.b32 %r9, %r1, 1; mul.wide.u32 %rd10, %r9, 4; add.s64 %rd12, %rd2, %rd10;",
            ("output",),
        ),
        Twin("all write to one place", "add.s64 %rd12, %rd2, %rd10;", "add.s64 %rd12, %rd2, 0;", ("output", "race")),
        Twin(
            "two elements are read at an odd one",
            "ld.global.b32 %r2, [%rd11];",
            "ld.global.v2.b32 {%r2, %r3}, [%rd11];",
            ("misaligned",),
            "ld.global",
        ),
        Twin(
            "the place is computed in 16 bits",
            "mul.wide.u32 %rd10, %r1, 4;",
            "and.b32 %r9, %r1, 15; mul.wide.u32 %rd10, %r9, 4;",
            ("output", "race"),
        ),
        Twin("the address is an index", "add.s64 %rd12, %rd2, %rd10;", "add.s64 %rd12, %rd10, 0;", ("out of bounds",)),
    ),
)
EDGES = Kernel(  # the first and the last byte, and vectors that end with the tensor
    module(
        """
        setp.ge.u32 %p1, %r1, 15;
        @%p1 ret;
        mul.wide.u32 %rd10, %r1, 16;
        add.s64 %rd11, %rd1, %rd10;
        add.s64 %rd12, %rd2, %rd10;
        ld.global.nc.v4.b32 {%r2, %r3, %r4, %r5}, [%rd11];
        st.global.v4.b32 [%rd12], {%r2, %r3, %r4, %r5};
        """,
        2,
    ),
    VALUES,
    inputs=(VALUES,),
    twins=(Twin("one vector too many", "%r1, 15;", "%r1, 16;", ("out of bounds",), "ld.global"),),
)
SUM = Kernel(  # of a block, by shuffles and shared memory
    module(
        """
        mov.b32 %r2, data;
        add.s32 %r3, %r1, 1;
        shfl.sync.down.b32 %r4, %r3, 16, 31, -1; add.s32 %r3, %r3, %r4;
        shfl.sync.down.b32 %r4, %r3, 8, 31, -1; add.s32 %r3, %r3, %r4;
        shfl.sync.down.b32 %r4, %r3, 4, 31, -1; add.s32 %r3, %r3, %r4;
        shfl.sync.down.b32 %r4, %r3, 2, 31, -1; add.s32 %r3, %r3, %r4;
        shfl.sync.down.b32 %r4, %r3, 1, 31, -1; add.s32 %r3, %r3, %r4;
        and.b32 %r5, %r1, 31;
        setp.eq.u32 %p1, %r5, 0;
        shr.u32 %r6, %r1, 5;
        mad.lo.s32 %r6, %r6, 4, %r2;
        @%p1 st.shared.b32 [%r6], %r3;
        bar.sync 0;
        ld.shared.v2.b32 {%r7, %r8}, [%r2];
        add.s32 %r7, %r7, %r8;
        setp.eq.u32 %p2, %r1, 0;
        @%p2 st.global.b32 [%rd1], %r7;
        """,
        1,
        registers=".shared .align 16 .b8 data[64];",
    ),
    np.array([64 * 65 // 2], np.int32),
    twins=(
        Twin("the barrier is dropped", "bar.sync 0;", "", ("race",), "ld.shared"),
        Twin("a step of the sum is dropped", "8, 31, -1; add", "8, 31, -1; sub", ("output",)),
        Twin("a lane is not a member", "4, 31, -1;", "4, 31, 65535;", ("divergence",)),
        Twin("another lane has the sum", "%r5, 0;", "%r5, 1;", ("output",)),
        Twin("only one warp stores", "eq.u32 %p1, %r5, 0", "eq.u32 %p1, %r1, 0", ("output",)),
        Twin("warps store to one place", "shr.u32 %r6, %r1, 5;", "mov.b32 %r6, 0;", ("race", "output")),
        Twin(
            "a half warp shuffles",
            "shfl.sync.down.b32 %r4, %r3, 2,",
            "@%p1 shfl.sync.down.b32 %r4, %r3, 2,",
            ("divergence", "output"),
        ),
    ),
)
HISTOGRAM = Kernel(
    module(
        """
        and.b32 %r2, %r1, 3;
        mul.wide.u32 %rd10, %r2, 4;
        add.s64 %rd11, %rd1, %rd10;
        red.global.add.u32 [%rd11], 1;
        """,
        1,
    ),
    np.full(4, 48, np.int32),
    grid=3,
    twins=(
        Twin(
            "it is no atomic operation",
            "red.global.add.u32 [%rd11], 1;",
            "ld.global.b32 %r3, [%rd11]; add.s32 %r3, %r3, 1; st.global.b32 [%rd11], %r3;",
            ("race",),
        ),
        Twin(
            "there is a bin too many", "and.b32 %r2, %r1, 3;", "and.b32 %r2, %r1, 7;", ("out of bounds",), "red.global"
        ),
    ),
)
KERNELS = {"copy": COPY, "edges": EDGES, "sum": SUM, "histogram": HISTOGRAM}
