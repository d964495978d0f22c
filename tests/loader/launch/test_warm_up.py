"""What is not tried when a kernel is made ready for CUDA, and why. What is tried: tests/road/test_ready.py."""

from __future__ import annotations

import pytest

from precast.loader.format.signature import Argument, Signature
from precast.loader.launch.warm_up import NotWarmedUp, warm_up
from precast.loader.resolve.driver import NoDriver

X = Argument(name="x", kind="tensor", dtype="float32", shape=("n",))


def test_a_kernel_without_a_stream_is_not_tried() -> None:
    """It would launch on the default stream, with tensors that are nowhere, and end the process's CUDA."""
    with pytest.raises(NotWarmedUp, match="takes no stream, so that trying it would launch it"):
        warm_up(0, Signature(arguments=(X,)), 0)


@pytest.mark.parametrize("kind", ["stream", "env_stream"])
def test_one_with_a_stream_is(kind: str) -> None:
    """On a machine without a driver that is as far as it gets."""
    with pytest.raises(NoDriver):
        warm_up(0, Signature(arguments=(X, Argument(name="s", kind=kind))), 10**6)
