"""The call path over many calls: no reference, no byte and no other thread's argument is left behind."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch")

import torch

from precast.loader.launch.kernel import Kernel
from tests.helpers.echo import (
    LEAVE_NO_ERROR,
    RAISE,
    RETURN_TENSOR,
    RETURN_TEXT,
    SLEEP,
    needs_call_path,
    outcome,
    resident,
)
from tests.helpers.exchange import Fake, Spiteful

pytestmark = needs_call_path


class Pair(NamedTuple):
    first: Any
    second: Any


class Five:
    def __tvm_ffi_int__(self) -> int:
        return 5


def test_no_reference_is_lost_or_kept(kernels: tuple[Kernel, Kernel]) -> None:
    fast, _ = kernels
    calls: list[tuple[Any, ...]] = [
        (0, torch.ones(2), 1.5), (RETURN_TEXT, torch.ones(2)), (RETURN_TENSOR, torch.ones(2)), (RAISE, torch.ones(3)),
        (0, (torch.ones(2), 1)), (0, Pair((torch.ones(2),), 1), "text"), (0, Pair(Fake(64, (2,)), None)),
        (0, Five(), (Five(), 2)), (0, Five(), "text"),
        (0, "text", (1, 2)), (0, (1, None), "text"), (RAISE, (1, None)), (0, Fake(64, (2,))), (0, object()), (0, 2**70),
        (0, torch.eye(2).to_sparse()), (0, Spiteful()), (LEAVE_NO_ERROR, 1.25),
    ]  # fmt: skip
    for args in calls:
        outcome(fast, *args)
    for args in calls:
        for value in (*args, fast, type(args[-1])):
            before = sys.getrefcount(value)
            for _ in range(100):
                outcome(fast, *args)
            assert abs(sys.getrefcount(value) - before) < 10, (args, value)


@pytest.mark.slow
def test_memory_stays(kernels: tuple[Kernel, Kernel]) -> None:
    fast, _ = kernels
    x = torch.ones(16)

    def many(count: int) -> None:
        for _ in range(count):
            outcome(fast, RAISE, *[x] * 50)  # each ends in a text of some thousand bytes
            fast(RETURN_TEXT, *[x] * 50)
            fast(RETURN_TENSOR, x)
            fast(wish=0, y=x, x="a text that does not fit in a few bytes")
            fast(0, *[(1,) * 32] * 8)
            fast(0, *[(Pair(x, 1), x, x)] * 8)
            fast(0, ((x,) * 32,) * 9)
            fast(0, Five(), (Five(), x))
            fast(0, *[(1,) * 32] * 8, "something else")

    many(200)
    before, blocks = resident(), sys.getallocatedblocks()
    many(2000)
    assert resident() - before < 2 << 20
    assert sys.getallocatedblocks() - blocks < 1000


def test_an_argument_lives_as_long_as_anyone_needs_it(kernels: tuple[Kernel, Kernel]) -> None:
    x = torch.ones(3)
    gone = weakref.ref(x)
    kernels[0](0, x)
    del x
    assert gone() is None


def test_many_threads(kernels: tuple[Kernel, Kernel]) -> None:
    """Each sees its own arguments, results and errors, while others call."""
    fast, _ = kernels
    faults: list[str] = []

    def work(number: int) -> None:
        x = torch.zeros(number + 1)
        for i in range(400):
            text = fast(RETURN_TEXT, x, number, i)
            if f" {number + 1}/1; kind 1 padding 0 value {number:x}; kind 1 padding 0 value {i:x}" not in text:
                faults.append(text)
            if f"value {number:x};" not in outcome(fast, RAISE + number % 8, number)[2]:
                faults.append("another's error")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_the_interpreter_is_let_go(kernels: tuple[Kernel, Kernel]) -> None:
    """While an entry takes its time, other threads run."""
    thread = threading.Thread(target=kernels[0], args=(SLEEP,))
    thread.start()
    steps = 0
    while thread.is_alive():
        steps += 1
        time.sleep(0.01)
    assert steps > 5
