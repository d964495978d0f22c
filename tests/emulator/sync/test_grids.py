"""Grids after each other, schedulers that take clusters away, and what needs a whole warp."""

from __future__ import annotations

import numpy as np
import pytest

from precast.emulator.emulator import EmulatedLaunch, Emulator, MemoryRange
from precast.emulator.errors import EmulationFault
from tests.helpers.emulator.synchronisation import Kernel, Twin, find, line_of, module, options, run

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


def test_ranks_on_several_devices_wait_for_each_other() -> None:
    text = module(
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
    vectors = np.zeros((2, 128), np.int32)
    signals = np.zeros(2, np.int32)
    memory = [
        MemoryRange(a.ctypes.data, a.ctypes.data + a.nbytes, True, name) for a, name in ((vectors, "x"), (signals, "s"))
    ]

    def launches(devices: tuple[int, int]) -> list[EmulatedLaunch]:
        pointers = [(vectors[r], vectors[1 - r], signals[r:], signals[1 - r :]) for r in range(2)]
        return [
            EmulatedLaunch(
                kernel="k",
                grid=(1, 1, 1),
                block=(64, 1, 1),
                device=device,
                parameters=tuple(a.ctypes.data.to_bytes(8, "little") for a in own),
            )
            for device, own in zip(devices, pointers, strict=True)
        ]

    for seed in range(10):
        vectors[:], signals[:] = 0, 0
        Emulator([text]).run(launches((0, 1)), memory, options(seed))
        np.testing.assert_array_equal(vectors[:, 64:], [np.arange(64)] * 2)
    signals[:] = 0
    with pytest.raises(EmulationFault, match="wait for what does not come"):
        Emulator([text]).run(launches((0, 0)), memory, options(0))
    for weak in ("sys.release", "acquire.sys"):
        signals[:] = 0
        relaxed = text.replace(weak, weak.replace("release", "relaxed").replace("acquire", "relaxed"))
        with pytest.raises(EmulationFault, match="nothing orders them"):
            Emulator([relaxed]).run(launches((0, 1)), memory, options(1))


def test_a_grid_that_may_overlap_writes_only_when_it_has_waited() -> None:
    text = DEPENDENT.text.replace("ld.global.b32 %r2, [%rd11];", "mov.b32 %r2, 0;")
    waits = Twin("the wait is dropped", "griddepcontrol.wait;", "", ("race",))
    alone = Kernel(text, np.ones(64, np.int32), overlap=True)
    run(alone, text, 0)
    assert find(alone, waits, 1)[0] == "race"
    run(Kernel(text, alone.output), text.replace(waits.old, waits.new), 0)
