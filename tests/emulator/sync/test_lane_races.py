"""Lanes of one warp are in order by bar.warp.sync, and not by running together."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.emulator.synchronisation import Kernel, Twin, find, line_of, module, run

SHARED = ".shared .align 16 .b8 data[1024];"
OUT = """
        shl.b32 %r8, %r1, 2;
        cvt.u64.u32 %rd2, %r8;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r7;
"""
EXCHANGE = Kernel(
    module(
        f"""
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        xor.b32 %r5, %r3, 4;
        add.s32 %r6, %r2, %r5;
        st.shared.b32 [%r4], %r1;
        bar.warp.sync -1;
        ld.shared.b32 %r7, [%r6];
        bar.warp.sync 0xffffffff;
        st.shared.b32 [%r4], 0;
        {OUT}
        """,
        1,
        registers=SHARED,
    ),
    np.arange(64, dtype=np.int32) ^ 1,
    twins=(
        Twin("the barrier after the writes is dropped", "bar.warp.sync -1;", "", ("race",), "ld.shared"),
        Twin("a shuffle is in its place", "bar.warp.sync -1;", "shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", ("race",)),
        Twin("the barrier after the reads is dropped", "bar.warp.sync 0xffffffff;", "", ("race",), "ld.shared"),
    ),
)
PAIRS = Kernel(  # barriers of two lanes each
    module(
        f"""
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 1;
        add.s32 %r4, %r2, %r3;
        xor.b32 %r5, %r3, 2;
        add.s32 %r6, %r2, %r5;
        and.b32 %r10, %r1, 30;
        mov.b32 %r11, 3;
        shl.b32 %r11, %r11, %r10;
        cvt.u16.u32 %h1, %r1;
        st.shared.b16 [%r4], %h1;
        bar.warp.sync %r11;
        ld.shared.u16 %r7, [%r6];
        {OUT}
        """,
        1,
        registers=SHARED + ".reg .b16 %h<4>;",
    ),
    np.arange(32, dtype=np.int32) ^ 1,
    block=32,
    twins=(
        Twin("it is dropped", "bar.warp.sync %r11;", "", ("race",), "ld.shared"),
        Twin(
            "each lane is alone",
            "bar.warp.sync %r11;",
            "mov.u32 %r12, %lanemask_eq;\n bar.warp.sync %r12;",
            ("race",),
            "ld.shared",
        ),
    ),
)
COPIES = Kernel(
    module(
        f"""
        mov.b32 %r2, data;
        shl.b32 %r3, %r1, 2;
        add.s32 %r4, %r2, %r3;
        xor.b32 %r5, %r3, 4;
        add.s32 %r6, %r2, %r5;
        cvt.u64.u32 %rd4, %r3;
        add.s64 %rd5, %rd1, %rd4;
        mov.b64 %rd1, %rd2;
        cp.async.ca.shared.global [%r4], [%rd5], 4;
        cp.async.wait_all;
        bar.warp.sync -1;
        ld.shared.b32 %r7, [%r6];
        {OUT}
        """,
        2,
        registers=SHARED,
    ),
    np.arange(64, dtype=np.int32) ^ 1,
    inputs=(np.arange(64, dtype=np.int32),),
    twins=(Twin("the barrier is dropped", "bar.warp.sync -1;", "", ("race",), "ld.shared"),),
)
KERNELS = {"exchange": EXCHANGE, "pairs": PAIRS, "copies": COPIES}


CASES = [
    pytest.param(kernel, twin, id=f"{name}: {twin.name}") for name, kernel in KERNELS.items() for twin in kernel.twins
]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_lanes_in_order_are_right(kernel: Kernel) -> None:
    for seed in range(5):
        run(kernel, kernel.text, seed)


@pytest.mark.parametrize(("kernel", "twin"), CASES)
def test_lanes_out_of_order_are_found(kernel: Kernel, twin: Twin) -> None:
    kind, lines = find(kernel, twin, 1)
    assert kind in twin.kinds
    if twin.at:
        assert line_of(kernel.text.replace(twin.old, twin.new), twin.at) in lines
