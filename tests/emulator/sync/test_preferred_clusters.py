"""Launches with a preferred cluster size: clusters of two sizes stand side by side, as the GPU likes."""

from __future__ import annotations

import numpy as np
import pytest

from precast.emulator import Unsupported
from tests.helpers.emulator import run_ptx
from tests.helpers.emulator.synchronisation import module, schedule

BLOCKS = 16
# Each block writes how many blocks its cluster has, and which of them it is.
SIZES = module(
    """
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %cluster_nctaid.x;
    mov.u32 %r4, %cluster_ctarank;
    mad.lo.s32 %r3, %r3, 16, %r4;
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    setp.eq.b32 %p1, %r1, 0;
    @%p1 red.global.add.u32 [%rd11], %r3;
    """,
    1,
)
# The same, but a block that is alone in its cluster takes another away, and does its work.
TAKEN = module(
    """
    mov.b32 %r20, full;
    mov.b32 %r21, response;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %cluster_nctaid.x;
    setp.eq.b32 %p5, %r3, 1;
    setp.eq.b32 %p1, %r1, 0;
    mov.b32 %r9, 0;
    @%p1 mbarrier.init.shared.b64 [%r20], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    work:
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    @%p1 red.global.add.u32 [%rd11], %r3;
    @!%p5 bra done;
    @!%p1 bra wait;
    mbarrier.arrive.expect_tx.shared.b64 %rd12, [%r20], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r21], [%r20];
    wait:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r20], %r9;
    @!%p3 bra wait;
    xor.b32 %r9, %r9, 1;
    ld.shared.b128 %rq1, [%r21];
    fence.proxy.async.shared::cta;
    bar.sync 0;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %rq1;
    @!%p4 bra done;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2, %r5, %r6, _}, %rq1;
    bra.uni work;
    done:
    ret;
    """,
    1,
    registers=".reg .b128 %rq<2>;\n.shared .align 8 .b8 full[8];\n.shared .align 16 .b8 response[16];",
)


def run(text: str, cluster: int, preferred: int, seed: int) -> list[int]:
    """What the blocks wrote."""
    output = np.zeros(BLOCKS, np.int32)
    run_ptx(text, [output], grid=BLOCKS, cluster=cluster, preferred=preferred, **schedule(seed))
    return [int(value) for value in output]


def sizes(written: list[int], cluster: int, preferred: int) -> tuple[int, ...]:
    """The sizes of the clusters in their order, each of which must be whole and stand where one of its size may."""
    found: list[int] = []
    block = 0
    while block < BLOCKS:
        size = written[block] // 16
        assert size in (cluster, preferred) and block % size == 0
        assert written[block : block + size] == [16 * size + rank for rank in range(size)]
        found.append(size)
        block += size
    return tuple(found)


def test_both_sizes_stand_side_by_side_without_a_seed() -> None:
    assert sizes(run(SIZES, 2, 4, 0), 2, 4) == (4, 2, 2, 4, 2, 2)


def test_which_clusters_are_large_depends_on_the_seed() -> None:
    found = {sizes(run(SIZES, 2, 4, seed), 2, 4) for seed in range(1, 9)}
    assert len(found) > 3


@pytest.mark.parametrize("seed", range(6))
def test_a_cluster_takes_away_only_clusters_of_its_own_size(seed: int) -> None:
    written = run(TAKEN, 1, 2, seed)
    assert set(written) <= {1, 2}, "a block did the work of two, or nobody did it"
    assert written[0::2] == written[1::2], "a half of a large cluster was taken away"


def test_the_number_of_a_cluster_is_refused_where_sizes_differ() -> None:
    text = SIZES.replace("%cluster_ctarank", "%clusterid.x")
    assert run(text, 2, 0, 1)[2] // 16 == 2, "with one size it has a number"
    with pytest.raises(Unsupported, match="the number of a cluster, with a preferred size"):
        run(text, 2, 4, 1)


def test_a_preferred_cluster_that_does_not_divide_the_grid_is_refused() -> None:
    with pytest.raises(Unsupported, match="not a multiple of the cluster"):
        run(SIZES, 1, 3, 0)
