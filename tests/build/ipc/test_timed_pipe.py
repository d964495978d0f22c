"""When a read from a pipe gives up: the time for which the other end waits for a processor does not count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from precast.build.ipc.message import TimedPipe


@pytest.fixture
def ends() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as pipe, open(writing, "wb", buffering=0) as other:
        yield pipe, other


def test_who_waits_for_a_processor_is_waited_for(ends: tuple[BinaryIO, BinaryIO]) -> None:
    pipe, other = ends
    seconds = [2.0, 32.0]

    def delay() -> float:
        if len(seconds) == 1:  # the deadline has passed
            other.write(b"x")
        return seconds.pop(0)

    assert TimedPipe(pipe, 0.0, lambda: None, delay).read(1) == b"x"


def test_who_does_not_is_not(ends: tuple[BinaryIO, BinaryIO]) -> None:
    with pytest.raises(TimeoutError):
        TimedPipe(ends[0], 0.0, lambda: None, lambda: 2.0).read(1)
