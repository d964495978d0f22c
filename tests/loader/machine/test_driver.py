"""What the driver is asked, with a driver that answers what a test wants."""

from __future__ import annotations

import ctypes
import os
import types
from pathlib import Path

import pytest

from precast import loader
from precast.loader.contract.format.target import Capability
from precast.loader.machine.driver import CurrentDriver, Driver, NoDriver, ordinal
from precast.loader.machine.machine import Machines
from tests.helpers.caches import Native
from tests.helpers.loader_fixtures import Use


@pytest.fixture
def driver(native: Native) -> CurrentDriver:
    return CurrentDriver(str(native.driver()))


@pytest.fixture
def machines(driver: CurrentDriver) -> Machines:
    return Machines(driver=driver)


def test_the_facts(machines: Machines) -> None:
    machine = machines.on()
    assert machine.capability == Capability(9, 0) and machine.driver == (12, 9) and not machine.absent
    assert str(machine.device) == "device 0 (Fake Hopper, 9.0)"
    assert machines.on("cuda:1").capability == machines.on(1).capability == Capability(10, 0)
    assert not machines.any_like(machine)
    assert "there is no CUDA device 2: this process sees device 0 (Fake Hopper, 9.0), device 1" in machines.on(2).absent


def test_the_current_device(driver: CurrentDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 1))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert driver.find().ordinal == 1, "no context: torch's"
    monkeypatch.setenv("FAKE_CONTEXT", "1")
    assert driver.find().ordinal == 0, "the context's"
    monkeypatch.setenv("FAKE_CURRENT", "1")
    torch.cuda.is_initialized = lambda: False
    assert driver.find().ordinal == 1
    monkeypatch.setenv("FAKE_CONTEXT", "0")
    assert driver.find().ordinal == 0, "the first"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("FAKE_INIT", "100", "cuInit: no CUDA-capable device is detected"),
        ("FAKE_INIT", "3", "before this process was forked"),
        ("FAKE_DEVICES", "0", "sees no device"),
    ],
)
def test_why_there_is_none(
    native: Native, machines: Machines, monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(NoDriver, match=reason) as caught:
        Driver(ctypes.CDLL(str(native.driver())))
    assert caught.value.version == (12, 9), "the driver's version is known although no device is"
    assert reason in machines.on().absent and machines.on().capability is None


@pytest.mark.parametrize("device", ["cpu", "cuda:x", "cuda:-1", -1, True, 1.0, "cuda:1²"])
def test_what_is_no_device(device: object) -> None:
    with pytest.raises(loader.ConfigError, match="is not a CUDA device: use an int"):
        ordinal(device)


def test_torch_devices() -> None:
    torch = pytest.importorskip("torch")

    assert ordinal(torch.device("cuda", 1)) == 1 and ordinal(torch.device("cuda")) is None
    with pytest.raises(loader.ConfigError):
        ordinal(torch.device("cpu"))


def test_get_follows_the_device(machines: Machines, path: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host with unlike devices the current one is asked about each time, and a kernel knows its device."""
    use(path, machines=machines)
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


def test_a_forked_child_asks_again(driver: CurrentDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    before = driver.get()
    assert driver.get() is before
    monkeypatch.setattr(os, "getpid", lambda: before.process + 1)
    assert driver.get() is not before


def test_a_driver_answers_for_each_device(native: Native) -> None:
    found = Driver(ctypes.CDLL(str(native.driver())))
    assert (found.attribute(0, 75), found.attribute(1, 75)) == (9, 10)
    assert found.attribute(0, 10_000) is None, "one that the driver lacks"
    assert found.memory(1) == 141 << 30


def test_what_another_runtime_says_of_the_current_device_is_checked(
    driver: CurrentDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context of a device that this process does not see, and a number of torch's beyond the devices: the first."""
    import sys

    monkeypatch.setenv("FAKE_CONTEXT", "1")
    monkeypatch.setenv("FAKE_CURRENT", "7")
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 9))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert driver.find().ordinal == 0


def test_a_library_that_is_no_driver_is_refused(native: Native) -> None:
    other = CurrentDriver("libc.so.6")
    with pytest.raises(NoDriver, match="has no cuDriverGetVersion"):
        other.get()


@pytest.mark.parametrize("answer", ["musl 1.2", "glibc", "", None, OSError()])
def test_a_host_without_glibc(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def confstr(name: str) -> object:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(os, "confstr", confstr)
    assert Machines().host.glibc is None


def test_each_device_has_a_handle_of_its_own(driver: CurrentDriver) -> None:
    assert len({driver.get().handle(device.ordinal) for device in driver.get().devices}) == 2
