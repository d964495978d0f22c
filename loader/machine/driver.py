"""The CUDA driver, through ``libcuda.so.1`` alone: which devices there are, and which one is current.

All of precast queries the driver here: the loader, ``precast doctor`` and the tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

from precast.loader.contract.format.target import Capability
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, PrecastError

LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_NOT_INITIALIZED = 3


class NoDriver(PrecastError):
    """There is no usable CUDA driver or device; the message is the reason. ``version`` is the driver's, if known."""

    code = "PCL13"

    def __init__(self, message: str, version: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.version = version


class Device(Immutable, kw_only=True):
    """One CUDA device, by the ordinal that this process gives it.

    >>> print(Device(ordinal=0, name="NVIDIA H200", capability=Capability(9, 0)))
    device 0 (NVIDIA H200, 9.0)
    """

    ordinal: int
    name: str
    capability: Capability

    def __str__(self) -> str:
        return f"device {self.ordinal} ({self.name}, {self.capability})"


class Driver:
    """An initialised CUDA driver and its devices, read once."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.process = os.getpid()
        version = self._integer("cuDriverGetVersion")
        self.version = (version // 1000, version % 1000 // 10)
        try:
            self._ask("cuInit", 0)
            self._handles = tuple(self._integer("cuDeviceGet", n) for n in range(self._integer("cuDeviceGetCount")))
            if not self._handles:
                raise NoDriver("the driver sees no device (is CUDA_VISIBLE_DEVICES empty?)")
            self.devices = tuple(self._device(ordinal, handle) for ordinal, handle in enumerate(self._handles))
        except NoDriver as reason:
            raise NoDriver(str(reason), self.version) from None

    @property
    def uniform(self) -> bool:
        """Whether every device has the same capability, so that it does not matter which one is current."""
        return len({device.capability for device in self.devices}) == 1

    def handle(self, ordinal: int) -> int:
        """The driver's handle of a device."""
        return self._handles[ordinal]

    def current(self) -> Device:
        """The device of the current context; else torch's, where torch has started CUDA; else the first."""
        return self.devices[self._current_ordinal()]

    def _current_ordinal(self) -> int:
        context = ctypes.c_void_p()
        self._ask("cuCtxGetCurrent", ctypes.byref(context))
        if context:
            handle = self._integer("cuCtxGetDevice")
            if handle in self._handles:
                return self._handles.index(handle)
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            ordinal = int(cuda.current_device())
            if ordinal < len(self.devices):
                return ordinal
        return 0

    def _device(self, ordinal: int, handle: int) -> Device:
        name = ctypes.create_string_buffer(256)
        self._ask("cuDeviceGetName", name, len(name), handle)
        major, minor = (self._integer("cuDeviceGetAttribute", which, handle) for which in (_MAJOR, _MINOR))
        return Device(ordinal=ordinal, name=name.value.decode("utf-8", "replace"), capability=Capability(major, minor))

    def attribute(self, ordinal: int, which: int) -> int | None:
        """One attribute of a device, by its number in ``CUdevice_attribute``; None for one that the driver lacks."""
        try:
            return self._integer("cuDeviceGetAttribute", which, self._handles[ordinal])
        except NoDriver:
            return None

    def memory(self, ordinal: int) -> int:
        """The bytes of memory of a device."""
        size = ctypes.c_size_t()
        self._ask("cuDeviceTotalMem_v2", ctypes.byref(size), self._handles[ordinal])
        return size.value

    def _integer(self, function: str, *arguments: int) -> int:
        value = ctypes.c_int()
        self._ask(function, ctypes.byref(value), *arguments)
        return value.value

    def _ask(self, function: str, *arguments: object) -> None:
        try:
            code = getattr(self.library, function)(*arguments)
        except AttributeError:
            raise NoDriver(f"{LIBRARY} has no {function}") from None
        if code == _NOT_INITIALIZED and function == "cuInit":
            raise NoDriver("CUDA was started before this process was forked (start workers by 'spawn' instead)")
        if code:
            raise NoDriver(f"{function}: {self._error(code)}")

    def _error(self, code: int) -> str:
        text = ctypes.c_char_p()
        with contextlib.suppress(AttributeError):
            self.library.cuGetErrorString(code, ctypes.byref(text))
        return text.value.decode("utf-8", "replace") if text.value else f"error {code}"


class CurrentDriver:
    """The driver of this process, started at the first use, and again in a forked child.

    Parameters
    ----------
    library
        The driver's library; a test names one of its own.

    >>> CurrentDriver("libcuda-of-no-machine.so.1").find()
    Traceback (most recent call last):
    precast.loader.machine.driver.NoDriver: libcuda-of-no-machine.so.1 is not installed...
    """

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = library
        self._driver: Driver | None = None

    def get(self) -> Driver:
        """The driver; NoDriver with the reason where there is none."""
        if self._driver is None or self._driver.process != os.getpid():
            try:
                library = ctypes.CDLL(self._library)
            except OSError:
                raise NoDriver(f"{self._library} is not installed") from None
            self._driver = Driver(library)
        return self._driver

    def find(self, device: object = None) -> Device:
        """The requested device, or the current one; NoDriver where there is none."""
        number, driver = ordinal(device), self.get()
        if number is None:
            return driver.current()
        if number >= len(driver.devices):
            seen = ", ".join(map(str, driver.devices))
            raise NoDriver(f"there is no CUDA device {number}: this process sees {seen}")
        return driver.devices[number]


def ordinal(device: object) -> int | None:
    """The number of a device given as an int, ``"cuda:1"`` or a ``torch.device``; None means the current one.

    >>> ordinal("cuda:1"), ordinal(0), ordinal("cuda")
    (1, 0, None)
    """
    number: object = device
    if device is None or device == "cuda":
        return None
    if isinstance(device, str) and device.startswith("cuda:") and device[5:].isascii() and device[5:].isdigit():
        number = int(device[5:])
    elif getattr(device, "type", None) == "cuda":
        number = getattr(device, "index", None)
        if number is None:
            return None
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ConfigError(f"{device!r} is not a CUDA device: use an int, 'cuda:1' or torch.device('cuda', 1)")
    return number
