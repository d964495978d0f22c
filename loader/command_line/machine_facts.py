"""The facts about this machine that a launch depends on: the CUDA driver and its devices, and this process's caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec

from precast.loader.command_line.cache_facts import (
    AttachedLibrary,
    CacheFacts,
    SharedOps,
    attached_libraries,
    cache_facts,
    machines_by_kind,
    shared_ops,
)
from precast.loader.contract.format.target import Capability
from precast.loader.machine.driver import CurrentDriver, NoDriver
from precast.loader.machine.machine import Machine, Machines

_PROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


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
class CachesFacts:
    """The caches of this process, what several of them share, and the attached libraries that they serve.

    ``trouble`` is why they could not be searched for, with the error's code.
    """

    caches: tuple[CacheFacts, ...] = ()
    shared_ops: tuple[SharedOps, ...] = ()
    libraries: tuple[AttachedLibrary, ...] = ()
    trouble: str = ""
    code: str = ""


def driver_facts() -> DriverFacts:
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


def caches_facts() -> CachesFacts:
    """The facts about the caches that this process discovers, for each kind of GPU that it has."""
    from precast import loader

    facts = CachesFacts()
    try:
        caches, machines = loader.caches(), dict(machines_by_kind(_machines()))
        return replace(
            facts,
            caches=tuple(cache_facts(cache, machines) for cache in caches),
            shared_ops=shared_ops(caches),
            libraries=attached_libraries(caches),
        )
    except Exception as error:  # trouble with the caches is one finding, and must not end the report
        return replace(facts, trouble=f"{type(error).__name__}: {error}", code=getattr(error, "code", ""))


def installed_version(name: str) -> str | None:
    """The version of an installed distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def has_native_code() -> bool:
    """Whether the loader is installed with its call path."""
    return find_spec("precast.loader.native._callpath") is not None


def _machines() -> Iterator[tuple[str, Machine]]:
    """This host with each of its GPUs."""
    machines = Machines()
    try:
        devices = machines.driver.get().devices
    except NoDriver:
        return
    for device in devices:
        yield f"GPU {device.ordinal}", machines.on(device.ordinal)
