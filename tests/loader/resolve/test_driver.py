"""What the driver is asked, with a driver that answers what a test wants."""

from __future__ import annotations

import ctypes
import os
import types
from pathlib import Path

import pytest

from precast import loader
from precast.loader.format.target import Capability
from precast.loader.resolve import driver
from precast.loader.resolve.driver import Driver, NoDriver
from precast.loader.resolve.machine import this_machine
from tests.helpers.caches import Native
from tests.loader.resolve.test_discover import Use


@pytest.fixture
def cuda(native: Native, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    path = native.driver()
    monkeypatch.setattr(driver, "LIBRARY", str(path))
    monkeypatch.setattr(driver, "_driver", None)
    return ctypes.CDLL(str(path))


def test_the_facts(cuda: ctypes.CDLL) -> None:
    machine = this_machine()
    assert machine.capability == Capability(9, 0) and machine.driver == (12, 9) and not machine.absent
    assert str(machine.device) == "device 0 (Fake Hopper, 9.0)"
    assert this_machine("cuda:1").capability == this_machine(1).capability == Capability(10, 0)
    assert not driver.driver().uniform
    assert (
        "there is no CUDA device 2: this process sees device 0 (Fake Hopper, 9.0), device 1" in this_machine(2).absent
    )


def test_the_current_device(cuda: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 1))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert driver.find_device().ordinal == 1, "no context: torch's"
    monkeypatch.setenv("FAKE_CONTEXT", "1")
    assert driver.find_device().ordinal == 0, "the context's"
    monkeypatch.setenv("FAKE_CURRENT", "1")
    torch.cuda.is_initialized = lambda: False
    assert driver.find_device().ordinal == 1
    monkeypatch.setenv("FAKE_CONTEXT", "0")
    assert driver.find_device().ordinal == 0, "the first"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("FAKE_INIT", "100", "cuInit: no CUDA-capable device is detected"),
        ("FAKE_INIT", "3", "before this process was forked"),
        ("FAKE_DEVICES", "0", "sees no device"),
    ],
)
def test_why_there_is_none(
    cuda: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(NoDriver, match=reason):
        Driver(cuda)
    assert reason in this_machine().absent and this_machine().capability is None


@pytest.mark.parametrize("device", ["cpu", "cuda:x", "cuda:-1", -1, True, 1.0, "cuda:1²"])
def test_what_is_no_device(device: object) -> None:
    with pytest.raises(loader.ConfigError, match="is not a CUDA device: use an int"):
        driver.ordinal(device)


def test_torch_devices() -> None:
    import torch

    assert driver.ordinal(torch.device("cuda", 1)) == 1 and driver.ordinal(torch.device("cuda")) is None
    with pytest.raises(loader.ConfigError):
        driver.ordinal(torch.device("cpu"))


def test_get_follows_the_device(cuda: ctypes.CDLL, path: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host with unlike devices the current one is asked about each time, and a kernel knows where it belongs."""
    use(path)
    assert str(loader.get("scale", {"dtype": "bf16"}).target) == "sm_90a"
    monkeypatch.setenv("FAKE_CONTEXT", "1")
    monkeypatch.setenv("FAKE_CURRENT", "1")
    assert str(loader.get("scale", {"dtype": "bf16"}).target) == "sm_100a"
    hopper = loader.get("scale", {"dtype": "bf16"}, device=0)
    assert str(hopper.target) == "sm_90a" and hopper.obstacle is None and hopper(4) == 8
    wrong = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    with pytest.raises(
        loader.WrongDevice, match=r"device 1 \(Fake Blackwell, 10\.0\) is 10\.0: call loader\.get without"
    ):
        wrong(4)
    monkeypatch.setenv("FAKE_CURRENT", "0")
    assert wrong.obstacle is None and wrong(4) == 8


def test_a_forked_child_asks_again(cuda: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    before = driver.driver()
    assert driver.driver() is before
    monkeypatch.setattr(os, "getpid", lambda: before.process + 1)
    assert driver.driver() is not before
