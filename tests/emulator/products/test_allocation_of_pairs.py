"""Tensor memory for a pair of blocks: neither goes on before the other allocates, too."""

from __future__ import annotations

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import run_ptx
from tests.helpers.emulator.synchronisation import module, schedule

# The second block raises a flag before it allocates; the first one looks at the flag behind its own allocation.
PAIR = module(
    """
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    setp.eq.u32 %p2, %r1, 0;
    and.pred %p3, %p1, %p2;
    @%p3 atom.global.add.u32 %r3, [%rd1], 5;
    bar.warp.sync -1;
    mov.b32 %r4, 64;
    mov.b32 %r6, place;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r6], %r4;
    ld.shared.b32 %r5, [place];
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
    @%p2 atom.global.add.u32 %r3, [%rd1], 0;
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    @%p2 st.global.b32 [%rd11+4], %r3;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, %r4;
    """,
    1,
    registers=".shared .align 4 .b8 place[4];",
)

# Each of two warps allocates, and stores where.
TWO_WARPS = module(
    """
    mov.u32 %r2, %cluster_ctarank;
    shr.u32 %r7, %r1, 5;
    shl.b32 %r7, %r7, 2;
    mov.b32 %r6, place;
    add.u32 %r6, %r6, %r7;
    mov.b32 %r4, 64;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r6], %r4;
    ld.shared.b32 %r5, [%r6];
    shl.b32 %r8, %r2, 3;
    add.u32 %r8, %r8, %r7;
    cvt.u64.u32 %rd10, %r8;
    add.s64 %rd11, %rd1, %rd10;
    and.b32 %r9, %r1, 31;
    setp.eq.u32 %p2, %r9, 0;
    @%p2 st.global.b32 [%rd11], %r5;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, %r4;
    """,
    1,
    registers=".shared .align 4 .b8 place[8];",
)


def run(text: str, seed: int, *, threads: int = 32, words: int = 3) -> list[int]:
    """The words that a pair of blocks stores."""
    output = np.zeros(words, np.int32)
    run_ptx(text, [output], grid=2, block=threads, cluster=2, **schedule(seed))
    return [int(value) for value in output]


@pytest.mark.parametrize("seed", range(5))
def test_an_allocation_of_a_pair_waits_for_the_other_block(seed: int) -> None:
    assert run(PAIR, seed) == [5, 5, 5]


def test_a_block_alone_does_not_wait() -> None:
    assert run(PAIR.replace("cta_group::2", "cta_group::1"), 0) == [5, 0, 5]


def test_a_peer_that_never_allocates_is_a_hang() -> None:
    text = PAIR.replace("bar.warp.sync -1;", "@%p1 exit;")
    with pytest.raises(EmulationFault, match="hang"):
        run(text, 0)


@pytest.mark.parametrize("seed", range(5))
def test_warps_of_a_block_allocate_one_after_the_other(seed: int) -> None:
    columns = run(TWO_WARPS, seed, threads=64, words=4)
    assert sorted(columns[:2]) == sorted(columns[2:]) == [0, 64]
