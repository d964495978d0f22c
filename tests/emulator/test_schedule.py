"""Blocks, clusters and grids: what runs when, and what never ends."""

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import kernel, run_ptx

SPECIALS = [
    "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
    "%nctaid.x", "%nctaid.y", "%nctaid.z", "%cluster_ctarank", "%cluster_nctarank", "%cluster_ctaid.x",
    "%cluster_ctaid.y", "%clusterid.x", "%clusterid.y",
    "%nclusterid.x", "%nclusterid.y", "%laneid", "%warpid", "%lanemask_lt", "%lanemask_ge", "%dynamic_smem_size",
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_special_registers_of_all_threads(seed: int) -> None:
    """With a grid, blocks and clusters of more than one dimension."""
    grid, block, cluster = (4, 6, 2), (3, 5, 4), (2, 3, 1)
    threads, blocks = 60, 48
    body = (
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mad.lo.u32 %r2, %r3, 6, %r2; "
        "mad.lo.u32 %r1, %r2, 4, %r1;"
        "mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z; mad.lo.u32 %r5, %r6, 5, %r5; "
        "mad.lo.u32 %r4, %r5, 3, %r4;"
        f"mad.lo.u32 %r1, %r1, {threads}, %r4; mad.wide.u32 %rd1, %r1, {4 * len(SPECIALS)}, out;"
    )
    body += "".join(f"mov.u32 %r9, {name}; st.global.u32 [%rd1+{4 * i}], %r9;" for i, name in enumerate(SPECIALS))
    out = np.zeros((blocks, threads, len(SPECIALS)), np.uint32)
    run_ptx(kernel(body, "u64 out"), [out], grid=grid, block=block, cluster=cluster, shared=48, seed=seed)
    for b in range(blocks):
        c = (b % 4, b // 4 % 6, b // 24)
        for t in range(threads):
            lane = t % 32
            mine = [t % 3, t // 3 % 5, t // 15, *block, *c, *grid, c[0] % 2 + c[1] % 3 * 2, 6, c[0] % 2, c[1] % 3]
            mine += [c[0] // 2, c[1] // 3, 2, 2, lane, t // 32, (1 << lane) - 1, 0xFFFFFFFF & ~((1 << lane) - 1), 48]
            assert out[b, t].tolist() == mine


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_blocks_may_wait_for_later_blocks(seed: int) -> None:
    """A grid barrier by an atomic counter: further clusters begin where all others wait."""
    body = """
    mov.u32 %r1, %ctaid.x;
    atom.global.add.release.gpu.u32 %r2, [out], 1;
    WAIT: ld.global.acquire.gpu.u32 %r3, [out]; setp.lt.u32 %p1, %r3, n; @%p1 bra WAIT;
    mad.wide.u32 %rd1, %r1, 4, out; st.global.u32 [%rd1+4], %r3;
    """.replace("atom.global.add.release.gpu", "atom.release.gpu.global.add").replace(
        "ld.global.acquire.gpu", "ld.acquire.gpu.global"
    )
    out = np.zeros(21, np.uint32)
    run_ptx(kernel(body, "u64 out, u32 n"), [out, 640], grid=20, seed=seed)
    assert out.tolist() == [640] * 21
    with pytest.raises(EmulationFault, match="hang"):
        arguments = [np.zeros(21, np.uint32), 20 * 1024]
        run_ptx(kernel(body, "u64 out, u32 n"), arguments, grid=20, block=1024, multiprocessors=3, seed=seed)


def test_a_loop_without_an_end_is_a_hang() -> None:
    """Also where nothing blocks."""
    with pytest.raises(EmulationFault, match="hang") as caught:
        run_ptx(kernel("LOOP: bra LOOP;"))
    assert caught.value.line > 0


def test_the_limit_of_instructions() -> None:
    """A loop that stores forever is stopped by it."""
    with pytest.raises(EmulationFault, match="limit of 100000"):
        run_ptx(kernel("LOOP: st.global.u32 [out], 1; bra LOOP;", "u64 out"), [np.zeros(1, np.uint32)], limit=100000)


def test_launches_come_one_after_the_other() -> None:
    """Each sees what the one before it wrote; counts are of all."""
    body = (
        "mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 4, out; ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; "
        "st.global.u32 [%rd1], %r2;"
    )
    for seed in range(3):
        out = np.zeros(64, np.uint32)
        counts = run_ptx(kernel(body, "u64 out"), [out], block=64, repeat=5, seed=seed)
        assert (out == 5).all() and counts.blocks == 5


def test_a_block_gets_memory_and_registers_anew() -> None:
    """What an earlier block left is not seen."""
    body = (
        ".shared .align 4 .b8 mine[128]; mov.u32 %r1, %tid.x; mov.u32 %r2, mine; "
        "mad.lo.u32 %r2, %r1, 4, %r2; ld.shared.u32 %r3, [%r2];"
        "st.shared.u32 [%r2], 1; mov.u32 %r4, %ctaid.x; mad.lo.u32 %r5, %r4, 32, %r1; "
        "mad.wide.u32 %rd1, %r5, 4, out; st.global.u32 [%rd1], %r3;"
    )
    for seed in range(3):
        out = np.zeros(320, np.uint32)
        run_ptx(kernel(body, "u64 out"), [out], grid=10, seed=seed)
        assert (out == 0x7FFF7FFF).all()


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5])
def test_a_dependent_grid_waits_for_the_one_before_it(seed: int) -> None:
    """With ``griddepcontrol`` a grid may begin early; what comes after its wait sees all that was written."""
    body = """
    mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 4, out;
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2;
    """
    out = np.zeros(8, np.uint32)
    run_ptx(kernel(body, "u64 out"), [out], block=1, grid=8, repeat=4, overlap=True, seed=seed)
    assert (out == 4).all()


def test_a_dependent_grid_that_does_not_wait_is_seen_with_some_seed() -> None:
    """It begins before the one before it has written."""
    body = """
    mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 4, out;
    griddepcontrol.launch_dependents;
    ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; mov.u32 %r3, 0;
    LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 300; @%p1 bra LOOP;
    st.global.u32 [%rd1], %r2;
    """
    results = []
    for seed in range(20):
        out = np.zeros(8, np.uint32)
        run_ptx(kernel(body, "u64 out"), [out], block=1, grid=8, repeat=4, overlap=True, seed=seed)
        results.append(bool((out == 4).all()))
    assert results[0] and not all(results)


def test_multiprocessors() -> None:
    """``%smid`` is below ``%nsmid``."""
    body = (
        "mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 8, out; mov.u32 %r2, %smid; mov.u32 %r3, %nsmid; "
        "st.global.v2.u32 [%rd1], {%r2, %r3};"
    )
    out = np.zeros((10, 2), np.uint32)
    run_ptx(kernel(body, "u64 out"), [out], grid=10, block=1, multiprocessors=4)
    assert (out[:, 0] < 4).all() and len(set(out[:, 0].tolist())) == 4 and (out[:, 1] == 4).all()


def test_a_warp_that_polls_two_flags_leaves_its_turn_to_others() -> None:
    """Where it reads the first one again, it waits: else its whole turn is spent at it."""
    work = 100_000
    body = f"""
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra WORK;
    WAIT: ld.volatile.global.u32 %r2, [out]; ld.volatile.global.u32 %r3, [out+4]; and.b32 %r2, %r2, %r3;
    setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT; bra END;
    WORK: mov.u32 %r4, 0;
    LOOP: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, {work}; @%p3 bra LOOP;
    st.volatile.global.u32 [out], 1; st.volatile.global.u32 [out+4], 1;
    END:
    """
    counts = run_ptx(kernel(body, "u64 out"), [np.zeros(2, np.uint32)], block=64)
    assert 3 * work < counts.instructions < 3 * work + 1000
