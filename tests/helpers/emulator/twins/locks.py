"""Locks in global memory, between blocks, and what looks like one."""

from __future__ import annotations

import numpy as np

from tests.helpers.emulator.synchronisation import Kernel, Twin, module

COUNTS = np.array([2, 2], np.int32)


def add(counter: int) -> str:
    """Add one to a counter, which a lock protects."""
    return f"ld.global.b32 %r10, [%rd3+{counter}]; add.s32 %r10, %r10, 1; st.global.b32 [%rd3+{counter}], %r10;"


def lock(place: str, label: str) -> str:
    return f"""
        {label}:
        atom.acquire.gpu.global.cas.b32 %r3, [{place}], 0, 1;
        setp.ne.b32 %p2, %r3, 0;
        @%p2 bra {label};
    """


def unlock(place: str) -> str:
    return f"        st.release.gpu.global.b32 [{place}], 0;\n"


# Two blocks take both locks, in the order in which %rd10 and %rd11 have them.
BOTH = Kernel(
    module(
        """
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        mov.u32 %r2, %ctaid.x;
        mov.b32 %r4, 0;
        setp.ne.u32 %p3, %r4, 0;
        add.s64 %rd10, %rd1, 0;
        add.s64 %rd11, %rd2, 0;
        @%p3 add.s64 %rd10, %rd2, 0;
        @%p3 add.s64 %rd11, %rd1, 0;
        """
        + lock("%rd10", "first")
        + lock("%rd11", "second")
        + add(0)
        + add(4)
        + unlock("%rd11")
        + unlock("%rd10"),
        3,
    ),
    COUNTS,
    scratch=(np.zeros(1, np.int32), np.zeros(1, np.int32)),
    grid=2,
    twins=(
        Twin("one block takes them in the other order", "mov.b32 %r4, 0;", "mov.b32 %r4, %r2;", ("hang",)),
        Twin("one is not given back", "st.release.gpu.global.b32 [%rd10], 0;", "", ("hang",)),
        Twin("they are taken without acquire", "atom.acquire.gpu", "atom.relaxed.gpu", ("race",)),
        Twin("they are given back without release", "st.release.gpu", "st.relaxed.gpu", ("race",)),
        Twin("they are for the block only", "acquire.gpu", "acquire.cta", ("race",)),
    ),
)
# Opposite orders are right where a block gives back what it has if it does not get the other one.
BACKING_OFF = Kernel(
    module(
        """
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        mov.u32 %r2, %ctaid.x;
        setp.ne.u32 %p3, %r2, 0;
        add.s64 %rd10, %rd1, 0;
        add.s64 %rd11, %rd2, 0;
        @%p3 add.s64 %rd10, %rd2, 0;
        @%p3 add.s64 %rd11, %rd1, 0;
        """
        + lock("%rd10", "first")
        + """
        atom.acquire.gpu.global.cas.b32 %r3, [%rd11], 0, 1;
        setp.eq.b32 %p2, %r3, 0;
        @%p2 bra both;
        st.release.gpu.global.b32 [%rd10], 0;
        nanosleep.u32 20;
        bra.uni first;
        both:
        """
        + add(0)
        + add(4)
        + unlock("%rd11")
        + unlock("%rd10"),
        3,
    ),
    COUNTS,
    scratch=(np.zeros(1, np.int32), np.zeros(1, np.int32)),
    grid=2,
    twins=(Twin("it keeps what it has", "st.release.gpu.global.b32 [%rd10], 0;\n        nano", "nano", ("hang",)),),
)
TICKET = Kernel(  # who comes first is served first
    module(
        """
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;
        again:
        ld.acquire.gpu.global.b32 %r4, [%rd2];
        setp.ne.b32 %p2, %r4, %r2;
        @%p2 bra again;
        """
        + add(0)
        + """
        add.s32 %r2, %r2, 1;
        st.release.gpu.global.b32 [%rd2], %r2;
        """,
        3,
    ),
    np.array([6], np.int32),
    scratch=(np.zeros(1, np.int32), np.zeros(1, np.int32)),
    grid=6,
    twins=(
        Twin("the next is not called", "add.s32 %r2, %r2, 1;", "", ("hang",)),
        Twin("who waits acquires nothing", "ld.acquire.gpu", "ld.relaxed.gpu", ("race",)),
        Twin("all have the first ticket", "[%rd1], 1;", "[%rd1], 0;", ("race", "output", "hang")),
    ),
)
SLOTS = Kernel(  # a compare-and-swap that takes a place for good, as in a hash table, is no lock
    module(
        """
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        mov.u32 %r2, %ctaid.x;
        add.s32 %r5, %r2, 1;
        and.b32 %r6, %r2, 1;
        probe:
        mul.wide.u32 %rd10, %r6, 4;
        add.s64 %rd11, %rd1, %rd10;
        atom.relaxed.gpu.global.cas.b32 %r3, [%rd11], 0, %r5;
        add.s32 %r6, %r6, 1;
        setp.ne.b32 %p2, %r3, 0;
        @%p2 bra probe;
        atom.relaxed.gpu.global.add.u32 %r7, [%rd2], %r5;
        """,
        2,
    ),
    np.array([10], np.int32),
    scratch=(np.zeros(8, np.int32),),
    grid=4,
)
MOST = Kernel(  # a maximum of floats by compare-and-swap
    module(
        """
        mov.b32 %r2, 0;
        again:
        cvt.rn.f32.u32 %f1, %r1;
        mov.b32 %f2, %r2;
        max.f32 %f3, %f1, %f2;
        mov.b32 %r4, %f3;
        atom.relaxed.gpu.global.cas.b32 %r3, [%rd1], %r2, %r4;
        setp.ne.b32 %p2, %r3, %r2;
        mov.b32 %r2, %r3;
        @%p2 bra again;
        """,
        1,
        registers=".reg .f32 %f<4>;",
    ),
    np.array([63.0], np.float32),
    grid=3,
    twins=(
        Twin(
            "it is no atomic operation",
            "atom.relaxed.gpu.global.cas.b32 %r3, [%rd1], %r2, %r4;",
            "ld.global.b32 %r3, [%rd1]; st.global.b32 [%rd1], %r4; mov.b32 %r3, %r2;",
            ("race",),
        ),
    ),
)
KERNELS = {"both": BOTH, "backing off": BACKING_OFF, "ticket": TICKET, "slots": SLOTS, "most": MOST}
