"""What is not tried when a kernel is made ready for CUDA, and why. What is tried: tests/road/test_ready.py."""

from __future__ import annotations

import pytest

from precast.loader.driver import Absent
from precast.loader.ready import NotReady, make_ready
from precast.loader.signature import Argument, Signature

X = Argument(name="x", kind="tensor", dtype="float32", shape=("n",))


def test_a_kernel_without_a_stream_is_not_tried() -> None:
    """It would launch on the default stream, with tensors that are nowhere, and end the process's CUDA."""
    with pytest.raises(NotReady, match="takes no stream, so that trying it would launch it"):
        make_ready(0, Signature(arguments=(X,)), 0)


@pytest.mark.parametrize("kind", ["stream", "env_stream"])
def test_one_with_a_stream_is(kind: str) -> None:
    """On a machine without a driver that is as far as it gets."""
    with pytest.raises(Absent):
        make_ready(0, Signature(arguments=(X, Argument(name="s", kind=kind))), 10**6)
