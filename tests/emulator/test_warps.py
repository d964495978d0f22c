"""What the lanes of a warp do together."""

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import kernel, run_ptx

STORE = "mad.wide.u32 %rd1, %r1, 4, out; st.global.u32 [%rd1], %r9;"


def lanes(body: str, seed: int = 0, threads: int = 32) -> list[int]:
    """What each lane has in %r9 at the end; %r1 is its number."""
    out = np.zeros(threads, np.uint32)
    run_ptx(kernel("mov.u32 %r1, %laneid;" + body + STORE, "u64 out"), [out], block=threads, seed=seed)
    return [int(value) for value in out]


@pytest.mark.parametrize(
    ("mode", "by", "clamp", "source"),
    [
        ("bfly", 5, 31, lambda i: i ^ 5),
        ("idx", 7, 31, lambda i: 7),
        ("idx", 3, 0x181F, lambda i: (i & 24) | 3),
        ("up", 3, 0, lambda i: i - 3 if i >= 3 else i),
        ("up", 1, 0x1800, lambda i: i - 1 if i % 8 else i),
        ("down", 3, 31, lambda i: i + 3 if i + 3 < 32 else i),
        ("down", 2, 0x181F, lambda i: i + 2 if i % 8 + 2 < 8 else i),
        ("bfly", 16, 0x100F, lambda i: i if i < 16 else i ^ 16),
    ],
)
def test_shuffles_with_segments(mode: str, by: int, clamp: int, source: object) -> None:
    """The predicate says whether the lane is inside; if not, a lane has its own value."""
    body = f"mul.lo.u32 %r2, %r1, 100; shfl.sync.{mode}.b32 %r9|%p1, %r2, {by}, {clamp}, -1; @!%p1 add.u32 %r9, %r9, 1;"
    result = lanes(body)
    expected = [source(i) for i in range(32)]  # type: ignore[operator]
    if mode == "idx":
        inside = [True] * 32
    elif mode == "bfly":
        inside = [(i ^ by) <= (31 if clamp == 31 else (i & 16) | 15) for i in range(32)]
    else:
        inside = [e != i for i, e in enumerate(expected)]
    assert result == [100 * e + (not within) for e, within in zip(expected, inside, strict=True)]


def test_a_shuffle_may_write_over_what_it_reads() -> None:
    """All lanes read before one writes."""
    assert lanes("mov.u32 %r9, %r1; shfl.sync.idx.b32 %r9, %r9, 31, 31, -1;") == [31] * 32


def test_votes_of_a_subset() -> None:
    """Each set of members votes by itself."""
    body = (
        "setp.lt.u32 %p1, %r1, 8; selp.b32 %r2, 0xff, 0xffffff00, %p1; and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0;"
        "vote.sync.ballot.b32 %r9, %p2, %r2; vote.sync.any.pred %p3, %p2, %r2; vote.sync.all.pred %p4, %p1, %r2;"
        "vote.sync.uni.pred %p5, %p2, %r2; selp.b32 %r4, 0x1000000, 0, %p3; xor.b32 %r9, %r9, %r4;"
        "@%p4 xor.b32 %r9, %r9, 0x2000000; @%p5 xor.b32 %r9, %r9, 0x4000000;"
    )
    assert lanes(body) == [0x55 ^ 0x3000000] * 8 + [0x55555500 ^ 0x1000000] * 24


def test_equal_values_are_matched() -> None:
    """``match.any`` and ``match.all``."""
    assert lanes("and.b32 %r2, %r1, 3; match.any.sync.b32 %r9, %r2, -1;") == [0x11111111 << (i & 3) for i in range(32)]
    body = "mov.b64 %rd2, 7; match.all.sync.b64 %r9|%p1, %rd2, -1; @!%p1 mov.u32 %r9, 5;"
    assert lanes(body) == [0xFFFFFFFF] * 32
    assert lanes("match.all.sync.b32 %r9|%p1, %r1, -1; @!%p1 add.u32 %r9, %r9, 5;") == [5] * 32


def test_reductions() -> None:
    """Integers, bits and floats; a NaN is passed over unless it decides."""
    assert lanes("redux.sync.add.s32 %r9, %r1, -1;") == [496] * 32
    assert lanes("sub.s32 %r2, %r1, 5; redux.sync.min.s32 %r9, %r2, -1;") == [(-5) & 0xFFFFFFFF] * 32
    assert lanes("redux.sync.xor.b32 %r9, %r1, -1;") == [0] * 32
    floats = "cvt.rn.f32.u32 %f1, %r1; setp.eq.u32 %p1, %r1, 9; selp.f32 %f1, 0f7FC00000, %f1, %p1; neg.f32 %f1, %f1;"
    assert lanes(floats + "redux.sync.min.f32 %r9, %f1, -1;") == [0xC1F80000] * 32
    assert lanes(floats + "redux.sync.min.NaN.f32 %r9, %f1, -1;") == [0x7FFFFFFF] * 32
    assert lanes(floats + "redux.sync.max.abs.f32 %r9, %f1, -1;") == [0x41F80000] * 32


def test_one_lane_is_elected() -> None:
    """The lowest that is there."""
    body = (
        "mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 4; @%p1 exit; elect.sync %r2|%p2, -1; @%p2 mov.u32 %r9, 100; "
        "add.u32 %r9, %r9, %r2;"
    )
    assert lanes(body) == [0] * 4 + [104] + [4] * 27


def test_lanes_in_a_loop_of_different_lengths_meet_after_it() -> None:
    """Each lane loops as often as its number; with any seed the sum is of all lanes."""
    body = (
        "mov.u32 %r2, 0; LOOP: setp.ge.u32 %p1, %r2, %r1; @%p1 bra OUT; add.u32 %r2, %r2, 1; bra LOOP; OUT:"
        "redux.sync.add.u32 %r9, %r2, -1;"
    )
    for seed in range(6):
        assert lanes(body, seed) == [496] * 32


def test_a_partial_warp_has_no_other_lanes() -> None:
    """Of 40 threads the second warp has 8."""
    out = np.zeros(40, np.uint32)
    body = "mov.u32 %r1, %tid.x; activemask.b32 %r9; vote.sync.ballot.b32 %r9, 1, -1;" + STORE
    run_ptx(kernel(body, "u64 out"), [out], block=40)
    assert out.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_a_table_of_jumps() -> None:
    """``brx.idx``: each lane goes to its label, and all meet."""
    body = (
        "and.b32 %r2, %r1, 3; TABLE: .branchtargets A, B, C, A; brx.idx %r2, TABLE;"
        "A: mov.u32 %r3, 10; bra OUT; B: mov.u32 %r3, 20; bra OUT; C: mov.u32 %r3, 30; "
        "OUT: redux.sync.add.u32 %r9, %r3, -1;"
        "add.u32 %r9, %r9, %r3;"
    )
    total = 8 * (10 + 20 + 30 + 10)
    assert lanes(body) == [total + (10, 20, 30, 10)[i & 3] for i in range(32)]
    with pytest.raises(EmulationFault, match="a jump to target 4 of 4"):
        lanes("mov.u32 %r2, 4; TABLE: .branchtargets A, A, A, A; brx.idx %r2, TABLE; A:")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("shfl.sync.idx.b32 %r9, %r1, 0, 31, 0xffff;", "divergence", "not a member"),
        ("setp.lt.u32 %p1, %r1, 4; @%p1 shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", "divergence", "its guard is false"),
        ((
            "setp.lt.u32 %p1, %r1, 4; @%p1 bra A; vote.sync.any.pred %p2, 1, -1; bra B; "
            "A: vote.sync.all.pred %p2, 1, -1; B:"
        ),
         "divergence", "must execute the same instruction"),
    ],
)  # fmt: skip
def test_members_that_do_not_come(body: str, kind: str, text: str) -> None:
    """A fault, with where the lanes wait."""
    with pytest.raises(EmulationFault, match=text) as caught:
        lanes(body)
    assert caught.value.kind == kind
