"""What synchronisation orders: right kernels of each family pass with all schedules, and each wrong twin is found."""

from __future__ import annotations

import os

import numpy as np
import pytest

from precast.emulator import EmulationFault, Emulator, Launch, Memory, Options
from tests.helpers.emulator import SANITIZED
from tests.helpers.emulator.synchronisation import Kernel, Twin, find, line_of, module, run, schedule
from tests.helpers.emulator.twins import KERNELS, barriers, clusters, grids

# Each delay and each fill once, where the interpreter is checked and not the rules.
SCHEDULES = 5 if SANITIZED in os.environ else 20
TWINS = [pytest.param(k, twin, id=f"{name}, {twin.name}") for name, k in KERNELS.items() for twin in k.twins]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_right_kernel_passes_with_all_schedules(kernel: Kernel) -> None:
    for seed in range(SCHEDULES):
        run(kernel, kernel.text, seed)


@pytest.mark.parametrize(("kernel", "twin"), TWINS)
def test_a_wrong_twin_is_found(kernel: Kernel, twin: Twin) -> None:
    kind, lines = find(kernel, twin, 10)
    assert kind in twin.kinds
    if twin.at:
        assert line_of(kernel.text.replace(twin.old, twin.new), twin.at) in lines


def test_warps_may_write_the_same_value_and_not_different_ones() -> None:
    body = """
        mov.b32 %r2, data;
        shr.u32 %r3, %r1, 5;
        mul.lo.s32 %r3, %r3, {factor};
        st.shared.b32 [%r2], %r3;
        bar.sync 0;
        ld.shared.b32 %r4, [%r2];
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        st.global.b32 [%rd3], %r4;
        """
    same = Kernel(module(body.format(factor=0), 1, registers=barriers.SHARED), np.zeros(64, np.int32))
    for seed in range(5):
        run(same, same.text, seed)
    different = Twin("different values", "%r3, 0;", "%r3, 1;", ("race",), "st.shared")
    kind, lines = find(same, different, 5)
    assert kind == "race"
    assert line_of(same.text, "st.shared") in lines


def test_a_block_whose_memory_is_read_may_not_end() -> None:
    text = clusters.PEERS.text
    for part in ("barrier.cluster.arrive;\n", "barrier.cluster.wait;\n"):
        text = text.replace(part, "")
    kinds = set()
    for seed in range(1, 40):
        try:
            run(clusters.PEERS, text, seed)
        except EmulationFault as fault:
            kinds.add(fault.kind)
    assert kinds == {"out of bounds"}


RANKS = module(
    """
    ld.param.b64 %rd4, [k_param_3];
    setp.ne.b32 %p1, %r1, 0;
    mul.wide.u32 %rd10, %r1, 4;
    add.s64 %rd11, %rd1, %rd10;
    st.global.b32 [%rd11], %r1;
    bar.sync 0;
    @%p1 bra met;
    atom.global.sys.release.exch.b32 %r2, [%rd4], 1;
    again:
    ld.acquire.sys.global.b32 %r3, [%rd3];
    setp.eq.b32 %p2, %r3, 0;
    @%p2 bra again;
    met:
    bar.sync 0;
    add.s64 %rd12, %rd2, %rd10;
    ld.global.b32 %r4, [%rd12];
    st.global.b32 [%rd11+256], %r4;
    """,
    4,
)


def run_ranks(text: str, devices: tuple[int, int], seed: int) -> None:
    """Two launches, each of which waits for the other's signal and then reads its vector."""
    vectors, signals = [np.zeros(128, np.int32) for _ in range(2)], [np.zeros(1, np.int32) for _ in range(2)]
    pointers = [Memory.of(array) for array in (*vectors, *signals)]
    launches = [
        Launch(kernel="k", grid=(1, 1, 1), block=(64, 1, 1), device=device, parameters=tuple(pointers[i] for i in own))
        for device, own in zip(devices, ((0, 1, 2, 3), (1, 0, 3, 2)), strict=True)
    ]
    Emulator([text]).run(launches, options=Options(**schedule(seed))).checked()
    np.testing.assert_array_equal([vector[64:] for vector in vectors], [np.arange(64)] * 2)


def test_ranks_on_several_devices_wait_for_each_other() -> None:
    for seed in range(10):
        run_ranks(RANKS, (0, 1), seed)
    with pytest.raises(EmulationFault, match="wait for what does not come"):
        run_ranks(RANKS, (0, 0), 0)
    for weak in ("sys.release", "acquire.sys"):
        relaxed = RANKS.replace(weak, weak.replace("release", "relaxed").replace("acquire", "relaxed"))
        with pytest.raises(EmulationFault, match="nothing orders them"):
            run_ranks(relaxed, (0, 1), 1)


def test_a_grid_that_may_overlap_writes_only_when_it_has_waited() -> None:
    text = grids.DEPENDENT.text.replace("ld.global.b32 %r2, [%rd11];", "mov.b32 %r2, 0;")
    waits = Twin("the wait is dropped", "griddepcontrol.wait;", "", ("race",))
    alone = Kernel(text, np.ones(64, np.int32), overlap=True)
    run(alone, text, 0)
    assert find(alone, waits, 1)[0] == "race"
    run(Kernel(text, alone.output), text.replace(waits.old, waits.new), 0)
