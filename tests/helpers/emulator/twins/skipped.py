"""Barriers that some threads go past, and those that look so: threads that have returned need not arrive."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

SHARED = ".shared .align 16 .b8 data[1024];"
OWN = """
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        cvt.u64.u32 %rd2, %r3;
        add.s64 %rd3, %rd1, %rd2;
        st.shared.b32 [%r4], %r1;
"""
BACK = """
        ld.shared.b32 %r7, [%r4];
        st.global.b32 [%rd3], %r7;
"""
THREADS = np.arange(64, dtype=np.int32)


def own(body: str) -> str:
    """Each thread stores its number in shared memory, and then writes it to the output: nothing races."""
    return module(OWN + body + BACK, 1, registers=SHARED)


PAST = Kernel(
    own("""
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra past;
        bar.sync 0;
        past:
    """),
    THREADS,
    twins=(
        Twin("a warp goes past it", "%r1, 64;", "%r1, 32;", ("barrier",), "bar.sync"),
        Twin("half of a warp goes past it", "%r1, 64;", "%r1, 48;", ("barrier",), "bar.sync"),
        Twin("one thread goes past it", "%r1, 64;", "%r1, 63;", ("barrier",), "bar.sync"),
        Twin("all but one go past it", "%r1, 64;", "%r1, 1;", ("barrier",), "bar.sync"),
        Twin(
            "its guard is false in half of a warp",
            "@%p1 bra past;\n        bar.sync 0;",
            "setp.lt.u32 %p2, %r1, 48;\n        @%p2 bar.sync 0;",
            ("divergence",),
            "bar.sync",
        ),
        Twin(
            "a warp goes past it, unaligned",
            "%r1, 64;\n        @%p1 bra past;\n        bar.sync 0;",
            "%r1, 32;\n        @%p1 bra past;\n        barrier.sync 0;",
            ("barrier",),
            "barrier.sync",
        ),
        Twin(
            "a warp goes past one of two",
            "%r1, 64;\n        @%p1 bra past;\n        bar.sync 0;\n        past:",
            "%r1, 32;\n        @%p1 bra past;\n        bar.sync 0;\n        past:\n        bar.sync 0;",
            ("barrier",),
        ),
        Twin(
            "a counted one that a warp goes past",
            "%r1, 64;\n        @%p1 bra past;\n        bar.sync 0;",
            "%r1, 32;\n        @%p1 bra past;\n        bar.sync 1, 64;",
            ("hang",),
            "bar.sync",
        ),
    ),
)
BRANCHES = Kernel(  # each warp has a barrier of its own in the text: the hardware has one
    own("""
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra low;
        bar.sync 0;
        bra.uni join;
        low:
        bar.sync 0;
        join:
    """),
    THREADS,
    twins=(
        Twin("the halves of a warp part", "%r1, 32;", "%r1, 16;", ("divergence",), "bar.sync"),
        Twin("one lane parts", "%r1, 32;", "%r1, 63;", ("divergence",), "bar.sync"),
    ),
)
LOOP = Kernel(
    own("""
        mov.b32 %r8, 3;
        mov.b32 %r9, 0;
        again:
        bar.sync 0;
        add.s32 %r9, %r9, 1;
        st.shared.b32 [%r4], %r1;
        setp.lt.u32 %p1, %r9, %r8;
        @%p1 bra again;
    """),
    THREADS,
    twins=(
        Twin(
            "warps come to it unequally often",
            "mov.b32 %r8, 3;",
            "shr.u32 %r8, %r1, 5; add.s32 %r8, %r8, 1;",
            ("barrier",),
            "bar.sync",
        ),
        Twin(
            "lanes come to it unequally often",
            "mov.b32 %r8, 3;",
            "and.b32 %r8, %r1, 1; add.s32 %r8, %r8, 1;",
            ("divergence", "barrier"),
        ),
    ),
)
# Right, though threads are missing at a barrier: they have returned.
RETURNED = Kernel(
    own("""
        setp.ge.u32 %p1, %r1, 40;
        @%p1 st.global.b32 [%rd3], %r1;
        @%p1 ret;
        bar.sync 0;
    """),
    THREADS,
    twins=(Twin("it counts them", "bar.sync 0;", "bar.sync 0, 128;", ("hang",), "bar.sync"),),
)
RETURNED_LATER = Kernel(
    own("""
        bar.sync 0;
        setp.ge.u32 %p1, %r1, 32;
        @%p1 bra last;
        bar.sync 1;
        st.global.b32 [%rd3], %r1;
        bar.sync 1;
        ret;
        last:
    """),
    THREADS,
)
RETURNED_FROM_LOOP = Kernel(  # what a thread wrote before it came to the barrier, it did not write behind it
    own("""
        mov.b32 %r9, 0;
        shr.u32 %r8, %r1, 5;
        again:
        setp.gt.u32 %p1, %r9, %r8;
        @%p1 ret;
        st.global.b32 [%rd3], %r1;
        bar.sync 0;
        add.s32 %r9, %r9, 1;
        bra.uni again;
    """),
    THREADS,
)
ROLES = Kernel(  # a warp with a part of its own, which has no barrier
    own("""
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra.uni mine;
        bar.sync 0;
        st.global.b32 [%rd3], %r1;
        ret;
        mine:
    """),
    THREADS,
)
MEET = Kernel(  # lanes that part between two barriers meet again
    own("""
        bar.sync 0;
        and.b32 %r8, %r1, 1;
        setp.eq.b32 %p1, %r8, 0;
        @%p1 bra even;
        st.shared.b32 [%r4], %r1;
        even:
        bar.sync 0;
    """),
    THREADS,
)
KERNELS = {
    "past": PAST, "branches": BRANCHES, "loop": LOOP, "returned": RETURNED, "returned later": RETURNED_LATER,
    "returned from a loop": RETURNED_FROM_LOOP, "roles": ROLES, "meet": MEET,
}  # fmt: skip
