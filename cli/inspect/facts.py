"""What this machine has, as plain values: Python, tools, packages, the CUDA driver and its devices."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from precast.build.link.versions import LIBRARIES, RUNTIMES, VARIABLE
from precast.cli.inspect.cache_health import (
    AttachedLibrary,
    CacheFacts,
    SharedOps,
    attached_libraries,
    cache_facts,
    machines_by_kind,
    shared_ops,
)
from precast.loader.format.target import Capability
from precast.loader.machine.driver import CurrentDriver, NoDriver
from precast.loader.machine.machine import Machine, Machines

PACKAGES = (
    "precast", "precast-loader", "nvidia-cutlass-dsl", "apache-tvm-ffi", *LIBRARIES.values(), *RUNTIMES.values(),
    "nvidia-cuda-cuobjdump", "zstandard", "torch", "cuda-bindings",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One CUDA device, with the number of its multiprocessors."""

    name: str
    capability: Capability
    processors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """The CUDA driver, as far as it answers. ``trouble`` says why there is no device, where there is none."""

    version: tuple[int, int] | None = None
    devices: tuple[DeviceFacts, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the doctor judges. ``cudart`` has the major versions of CUDA whose static runtime is here, ``cuda`` the
    one that the caller asks for, if any; ``own_zstd`` says whether this Python decodes zstd by itself."""

    python: tuple[int, int, int]
    system: str
    processor: str
    glibc: str
    packages: Mapping[str, str | None]
    cc: str | None
    cuobjdump: bool
    cudart: tuple[int, ...]
    driver: DriverFacts
    caches: tuple[CacheFacts, ...] = ()
    caches_trouble: str = ""
    caches_code: str = ""
    shared_ops: tuple[SharedOps, ...] = ()
    libraries: tuple[AttachedLibrary, ...] = ()
    cuda: str = ""
    own_zstd: bool = False
    toolchains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Caches:
    caches: tuple[CacheFacts, ...] = ()
    shared_ops: tuple[SharedOps, ...] = ()
    libraries: tuple[AttachedLibrary, ...] = ()
    trouble: str = ""
    code: str = ""


def look() -> Facts:
    """Ask this machine. Nothing is imported that is slow to import, and no CUDA context is made."""
    seen = _caches()
    return Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        processor=platform.machine(),
        glibc=" ".join(platform.libc_ver()).strip(),
        packages={name: _installed(name) for name in PACKAGES},
        cc=next(filter(None, map(shutil.which, (os.environ.get("CC") or "gcc", "cc"))), None),
        cuobjdump=_ships("nvidia-cuda-cuobjdump", "cuobjdump"),
        cudart=tuple(cuda for cuda, name in RUNTIMES.items() if _ships(name, "libcudart_static.a")),
        driver=_driver(),
        caches=seen.caches,
        caches_trouble=seen.trouble,
        caches_code=seen.code,
        shared_ops=seen.shared_ops,
        libraries=seen.libraries,
        cuda=os.environ.get(VARIABLE, ""),
        own_zstd=sys.version_info >= (3, 14) and find_spec("_zstd") is not None,
        toolchains=_toolchains(),
    )


def _toolchains() -> tuple[str, ...]:
    """Those of manifests that were made here, a line each."""
    from precast.build.toolchains.plans import Toolchains
    from precast.cli.shared.toolchain_text import line_of

    return tuple(map(line_of, Toolchains().environments()))


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


def _caches() -> _Caches:
    from precast import loader

    try:
        found = loader.caches()
        machines = dict(machines_by_kind(_machines()))
        facts = tuple(cache_facts(one, machines) for one in found)
        return _Caches(facts, shared_ops(found), attached_libraries(found))
    except Exception as error:  # any trouble with the caches is a finding, not an end of the report
        return _Caches(trouble=f"{type(error).__name__}: {error}", code=getattr(error, "code", ""))


def _machines() -> Iterator[tuple[str, Machine]]:
    """This host with each of its GPUs."""
    machines = Machines()
    try:
        devices = machines.driver.get().devices
    except NoDriver:
        return
    for device in devices:
        yield f"GPU {device.ordinal}", machines.on(device.ordinal)


_PROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


def _driver() -> DriverFacts:
    """What the loader's reader of the driver says: neither torch nor the CUDA Python packages are needed for it."""
    try:
        driver = CurrentDriver().get()
    except NoDriver as reason:
        return DriverFacts(version=reason.version, trouble=str(reason))
    devices = tuple(
        DeviceFacts(
            name=device.name,
            capability=device.capability,
            processors=driver.attribute(device.ordinal, _PROCESSORS) or 0,
        )
        for device in driver.devices
    )
    return DriverFacts(version=driver.version, devices=devices)
