"""What the driver says of a device beyond its capability, and what happens where a fact cannot be had."""

from __future__ import annotations

import os
import sys
import types
from typing import Any, cast

import pytest

from precast.loader.format.config import Key
from precast.loader.resolve import machine
from precast.loader.resolve.candidate import Request, Wanted, bucketing
from precast.loader.resolve.driver import Driver, NoDriver

SMS, MEMORY = 16, 139 << 30


class FakeDriver:
    """One device with one context that is another process's, and only some functions and attributes."""

    def __init__(self, context: int = 0) -> None:
        self._context = context

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device._obj.value = 7
        return 0

    def cuDeviceGetName(self, name: Any, length: int, device: int) -> int:
        name.value = b"Fake"
        return 0

    def cuDeviceGetAttribute(self, value: Any, which: int, device: int) -> int:
        value._obj.value = {75: 9, 76: 0, SMS: 132}.get(which, -1)
        return 1 if value._obj.value < 0 else 0

    def cuDeviceTotalMem_v2(self, size: Any, device: int) -> int:
        size._obj.value = MEMORY
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = self._context
        return 0

    def cuCtxGetDevice(self, device: Any) -> int:
        device._obj.value = 99
        return 0


def fake(context: int = 0) -> Driver:
    return Driver(cast(Any, FakeDriver(context)))


def test_attributes_and_memory() -> None:
    driver = fake()
    assert driver.attribute(0, SMS) == 132
    assert driver.attribute(0, 1000) is None, "one that this driver does not know"
    assert driver.memory(0) == MEMORY
    assert driver.handle(0) == 7 and driver.uniform


def test_a_context_of_a_device_that_is_not_visible() -> None:
    assert fake(context=1).current().ordinal == 0


def test_torch_on_a_device_that_the_driver_does_not_list(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 5)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert fake().current().ordinal == 0


def test_a_driver_without_a_function() -> None:
    class Old(FakeDriver):
        def __getattribute__(self, name: str) -> Any:
            if name == "cuDeviceGetCount":
                raise AttributeError(name)
            return super().__getattribute__(name)

    with pytest.raises(NoDriver, match="has no cuDeviceGetCount"):
        Driver(cast(Any, Old()))


def test_an_error_without_a_text() -> None:
    class Failing(FakeDriver):
        def cuInit(self, flags: int) -> int:
            return 999

    with pytest.raises(NoDriver, match="cuInit: error 999"):
        Driver(cast(Any, Failing()))


@pytest.mark.parametrize("answer", [None, "musl 1.2", "glibc", "glibc two"])
def test_a_system_without_glibc(answer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: answer)
    assert machine._glibc() is None


def test_values_of_lists_find_their_bucket() -> None:
    bucket = bucketing((Key(name="tile", type="list[any]"), Key(name="n", type="int")))
    assert bucket({"tile": [64, ["x"]], "n": 1}) == bucket({"tile": (64, ("x",)), "n": 1})
    assert bucket({"tile": [64, ["x"]], "n": 1}) != bucket({"tile": [64, ["y"]], "n": 1})


def test_a_config_that_is_no_object_differs_in_every_key() -> None:
    wanted = Wanted.of(Request(op="scale", config={"n": 1}), (Key(name="n", type="int"),))
    assert wanted.differing(None) == ("n",)
    assert wanted.differing({"n": 1}) == ()
