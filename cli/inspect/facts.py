"""What this machine has, as plain values: Python, tools, packages, the CUDA driver and its devices."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from precast.loader.format.target import Capability

PACKAGES = (
    "precast", "precast-loader", "nvidia-cutlass-dsl", "apache-tvm-ffi", "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-cuobjdump", "zstandard", "torch", "cuda-bindings",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One CUDA device."""

    name: str
    capability: Capability
    processors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The CUDA driver, as far as it answers. ``trouble`` says why there is no device, where there is none."""

    version: tuple[int, int] | None = None
    devices: tuple[Device, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One cache that the loader finds, or the place where one should be, with what is wrong there."""

    name: str
    path: str
    origin: str
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the doctor judges."""

    python: tuple[int, int, int]
    system: str
    processor: str
    glibc: str
    packages: Mapping[str, str | None]
    cc: str | None
    cuobjdump: bool
    cudart: bool
    driver: Driver
    caches: tuple[Found, ...] = ()
    caches_trouble: str = ""


def look() -> Facts:
    """Ask this machine. Nothing is imported that is slow to import, and no CUDA context is made."""
    caches, trouble = _caches()
    return Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        processor=platform.machine(),
        glibc=" ".join(platform.libc_ver()).strip(),
        packages={name: _installed(name) for name in PACKAGES},
        cc=next(filter(None, map(shutil.which, (os.environ.get("CC") or "gcc", "cc"))), None),
        cuobjdump=_ships("nvidia-cuda-cuobjdump", "cuobjdump"),
        cudart=_ships("nvidia-cuda-runtime-cu12", "libcudart_static.a"),
        driver=_driver(),
        caches=caches,
        caches_trouble=trouble,
    )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ships(package: str, filename: str) -> bool:
    """Whether an installed package has a file of this name, and it is really there."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return False
    return any(f.name == filename and os.path.isfile(str(f.locate())) for f in files)


def _caches() -> tuple[tuple[Found, ...], str]:
    from precast import loader

    try:
        return tuple(
            Found(name=c.name, path=str(c.path or "nowhere"), origin=c.origin, trouble=str(c.error or ""))
            for c in loader.caches()
        ), ""
    except Exception as error:  # whatever is wrong with the caches is what the doctor is here to report
        return (), f"{type(error).__name__}: {error}"


# From the CUDA driver API: the attribute numbers of cuDeviceGetAttribute.
_PROCESSORS, _MAJOR, _MINOR = 16, 75, 76


class _CudaError(Exception):
    pass


def _driver() -> Driver:
    """Read the driver through ctypes: neither torch nor the CUDA Python packages are needed for it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Driver(trouble="libcuda.so.1 is not on this machine")
    number = ctypes.c_int()
    known = cuda.cuDriverGetVersion(ctypes.byref(number)) == 0
    version = (number.value // 1000, number.value % 1000 // 10) if known else None
    try:
        _ask(cuda, "cuInit", 0)
        _ask(cuda, "cuDeviceGetCount", ctypes.byref(number))
        devices = tuple(_device(cuda, ordinal) for ordinal in range(number.value))
    except _CudaError as error:
        return Driver(version=version, trouble=str(error))
    return Driver(version=version, devices=devices, trouble="" if devices else "the driver shows no device")


def _device(cuda: ctypes.CDLL, ordinal: int) -> Device:
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    _ask(cuda, "cuDeviceGet", ctypes.byref(handle), ordinal)
    _ask(cuda, "cuDeviceGetName", name, len(name), handle)

    def attribute(which: int) -> int:
        value = ctypes.c_int()
        _ask(cuda, "cuDeviceGetAttribute", ctypes.byref(value), which, handle)
        return value.value

    return Device(
        name=name.value.decode(errors="replace"),
        capability=Capability(attribute(_MAJOR), attribute(_MINOR)),
        processors=attribute(_PROCESSORS),
    )


def _ask(cuda: ctypes.CDLL, function: str, *arguments: object) -> None:
    status = getattr(cuda, function)(*arguments)
    if status != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(text))
        raise _CudaError(f"{function} answers {(text.value or b'an unknown error').decode()} ({status})")
