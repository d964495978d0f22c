"""What is not tried when a kernel is warmed up, and why. What is tried: tests/end_to_end/test_warm_up.py."""

from __future__ import annotations

import ctypes

import pytest

from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.launch.warm_up import NotWarmedUp, warm_up
from precast.loader.machine.driver import Driver
from tests.helpers.caches import Native

X = Argument(name="x", kind="tensor", dtype="float32", shape=("n",))


@pytest.fixture
def driver(native: Native) -> Driver:
    return Driver(ctypes.CDLL(str(native.driver())))


def test_a_kernel_without_a_stream_is_not_tried(driver: Driver) -> None:
    """It would launch on the default stream, with tensors that are nowhere, and end the process's CUDA."""
    with pytest.raises(NotWarmedUp, match="takes no stream, so a warm-up would launch it"):
        warm_up(0, Signature(arguments=(X,)), driver, 0)


@pytest.mark.parametrize("kind", ["stream", "env_stream"])
def test_one_with_a_stream_is_tried(driver: Driver, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets as far as the driver, which refuses its stream here."""
    monkeypatch.setenv("FAKE_STREAM", "719")
    with pytest.raises(NotWarmedUp, match="cuStreamCreate returned error 719"):
        warm_up(0, Signature(arguments=(X, Argument(name="s", kind=kind))), driver, 0)
