"""Lanes that part and meet, and exit early."""

import numpy as np

from tests.helpers.emulator import kernel, run_ptx


def test_lanes_that_parted_meet_and_vote_together() -> None:
    """Odd lanes take another way; a ballot after both ways has all lanes."""
    text = kernel(
        """
        mov.u32 %r1, %laneid;
        and.b32 %r2, %r1, 1;
        setp.eq.u32 %p1, %r2, 0;
        mov.u32 %r3, 0;
        @%p1 bra EVEN;
        add.u32 %r3, %r3, 5;
        bra JOIN;
        EVEN:
        add.u32 %r3, %r3, 7;
        JOIN:
        setp.eq.u32 %p2, %r3, 7;
        vote.sync.ballot.b32 %r4, %p2, -1;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd1, %rd1, out;
        st.global.u32 [%rd1], %r4;
        """,
        "u64 out",
    )
    for seed in range(8):
        out = np.zeros(32, np.uint32)
        run_ptx(text, [out], seed=seed)
        assert (out == 0x55555555).all()


def test_lanes_that_have_exited_are_not_waited_for() -> None:
    """A later vote has those that are left."""
    text = kernel(
        """
        mov.u32 %r1, %laneid;
        setp.ge.u32 %p1, %r1, 20;
        @%p1 exit;
        vote.sync.ballot.b32 %r2, 1, -1;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd1, %rd1, out;
        st.global.u32 [%rd1], %r2;
        """,
        "u64 out",
    )
    out = np.zeros(32, np.uint32)
    run_ptx(text, [out])
    assert (out[:20] == (1 << 20) - 1).all() and (out[20:] == 0).all()
