"""The cluster's barrier orders accesses of each other's shared memory, and ends before a block does."""

from __future__ import annotations

import numpy as np
import pytest

from precast.emulator.errors import EmulationFault
from tests.helpers.emulator.synchronisation import Kernel, Twin, find, line_of, module, run

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
TWINS = [pytest.param(k, t, id=f"{n}: {t.name}") for n, k in KERNELS.items() for t in k.twins]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_right_kernel_passes_with_all_schedules(kernel: Kernel) -> None:
    for seed in range(20):
        run(kernel, kernel.text, seed)


@pytest.mark.parametrize(("kernel", "twin"), TWINS)
def test_a_wrong_twin_is_found(kernel: Kernel, twin: Twin) -> None:
    kind, lines = find(kernel, twin, 10)
    assert kind in twin.kinds
    if twin.at:
        assert line_of(kernel.text.replace(twin.old, twin.new), twin.at) in lines


def test_a_block_whose_memory_is_read_may_not_end() -> None:
    text = PEERS.text
    for part in ("barrier.cluster.arrive;\n", "barrier.cluster.wait;\n"):
        text = text.replace(part, "")
    kinds = set()
    for seed in range(1, 40):
        try:
            run(PEERS, text, seed)
        except EmulationFault as fault:
            kinds.add(fault.kind)
    assert kinds == {"out of bounds"}
