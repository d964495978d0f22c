"""The facts about this machine, as plain values: Python, tools, packages, caches, the CUDA driver and its devices."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec

from precast.build.doctor.cache_facts import (
    AttachedLibrary,
    CacheFacts,
    SharedOps,
    attached_libraries,
    cache_facts,
    machines_by_kind,
    shared_ops,
)
from precast.build.link.versions import LIBRARIES, RUNTIMES, VARIABLE
from precast.build.toolchains.environments import Environment
from precast.build.toolchains.plans import Toolchains
from precast.loader.contract.format.target import Capability
from precast.loader.machine.driver import CurrentDriver, NoDriver
from precast.loader.machine.machine import Machine, Machines

PACKAGES = (
    "precast", "precast-loader", "nvidia-cutlass-dsl", "apache-tvm-ffi", *LIBRARIES.values(), *RUNTIMES.values(),
    "nvidia-cuda-cuobjdump", "zstandard", "torch",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """A CUDA device, with the number of its multiprocessors."""

    name: str
    capability: Capability
    processors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """The CUDA driver: its version and devices, as far as they are known. ``trouble`` is why there is no device."""

    version: tuple[int, int] | None = None
    devices: tuple[DeviceFacts, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the doctor judges.

    ``cudart`` has the major versions of CUDA whose static runtime is installed; ``cuda`` is the version that the
    environment selects, if any; ``own_zstd`` is whether this Python's standard library decodes zstd;
    ``native_code`` whether the loader has its call path.
    """

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
    native_code: bool = True
    toolchains: tuple[Environment, ...] = ()


def machine_facts() -> Facts:
    """The facts about this machine. Nothing slow is imported, and no CUDA context is created."""
    facts = Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        processor=platform.machine(),
        glibc=" ".join(platform.libc_ver()).strip(),
        packages={name: _installed(name) for name in PACKAGES},
        native_code=find_spec("precast.loader.native._callpath") is not None,
        cc=next(filter(None, map(shutil.which, (os.environ.get("CC") or "gcc", "cc"))), None),
        cuobjdump=_ships("nvidia-cuda-cuobjdump", "cuobjdump"),
        cudart=tuple(cuda for cuda, name in RUNTIMES.items() if _ships(name, "libcudart_static.a")),
        driver=_driver(),
        cuda=os.environ.get(VARIABLE, ""),
        own_zstd=sys.version_info >= (3, 14) and find_spec("_zstd") is not None,
        toolchains=tuple(Toolchains().environments()),
    )
    try:
        return _with_caches(facts)
    except Exception as error:  # trouble with the caches is one finding, and must not end the report
        code = getattr(error, "code", "")
        return replace(facts, caches_trouble=f"{type(error).__name__}: {error}", caches_code=code)


def _with_caches(facts: Facts) -> Facts:
    from precast import loader

    caches, machines = loader.caches(), dict(machines_by_kind(_machines()))
    return replace(
        facts,
        caches=tuple(cache_facts(cache, machines) for cache in caches),
        shared_ops=shared_ops(caches),
        libraries=attached_libraries(caches),
    )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ships(package: str, filename: str) -> bool:
    """Whether an installed package has a file of this name, and the file exists."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return False
    return any(f.name == filename and os.path.isfile(str(f.locate())) for f in files)


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
    """The driver's facts, as the loader reads them: neither torch nor the CUDA Python packages are needed."""
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
