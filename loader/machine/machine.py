"""Machines: the facts about where a kernel is to run, as a value, so that resolution is a pure function of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field

from precast.loader.contract.format.target import Capability, Target
from precast.loader.contract.values import Immutable, replace
from precast.loader.fast_start.installed import Installed
from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.driver import CurrentDriver, Device, NoDriver

Version = tuple[int, int]
Query = Callable[[str], int | str | None]
"""Returns a fact of a device by its name (``precast.loader.machine.facts``), or None where it cannot be queried."""


class Machine(Immutable, kw_only=True):
    """The facts that decide whether an artifact runs here. ``absent`` is why there is no capability, if there is none.

    ``query`` returns further facts of the device. Without it, as for a hypothetical device, none can be compared.

    >>> Machine(arch="x86_64", capability=Capability(9, 0)).supposing(Target.parse("sm_100a")).capability
    Capability(major=10, minor=0)
    """

    arch: str
    glibc: Version | None = None
    tvm_ffi: str | None = None
    driver: Version | None = None
    device: Device | None = None
    capability: Capability | None = None
    target: Target | None = None
    absent: str = ""
    query: Query | None = field(default=None, compare=False, repr=False)

    def supposing(self, target: Target) -> Machine:
        """The same host with a device of the capability that ``target`` names, and a driver that serves it."""
        return replace(
            self, driver=None, device=None, capability=target.capability, target=target, absent="", query=None
        )

    def __str__(self) -> str:
        if self.target is not None:
            where = f"for {self.target} (a device of {self.capability})"
        elif self.device is not None:
            where = f"on {self.device}"
        else:
            where = f"on a device of {self.capability}" if self.capability else f"without a CUDA device: {self.absent}"
        facts = [where, self.arch, f"glibc {version(self.glibc)}" if self.glibc else "no glibc"]
        if self.driver:
            facts.append(f"driver for CUDA {version(self.driver)}")
        facts.append(f"tvm-ffi {self.tvm_ffi}" if self.tvm_ffi else "no tvm-ffi")
        return ", ".join(facts)


class DriverQuery:
    """Queries facts of one device from the driver, and records the ``names`` of the queried facts."""

    def __init__(self, machines: Machines, ordinal: int) -> None:
        self._machines, self._ordinal = machines, ordinal
        self.names: set[str] = set()

    def __call__(self, name: str) -> int | str | None:
        self.names.add(name)
        return self._machines.fact(self._ordinal, name)


def version(pair: Version) -> str:
    """The usual way to write a version of two numbers.

    >>> version((2, 36))
    '2.36'
    """
    return f"{pair[0]}.{pair[1]}"


class Machines:
    """This host with each of its devices, as a Machine.

    Parameters
    ----------
    host
        The host; the one that this process runs on if None. A host with a capability, or with a reason why it has
        none, is used as it is: no driver is queried. Tests describe a machine in this way.
    driver
        The driver to query for devices.
    installed
        The installed distributions, of which one is TVM-FFI.

    >>> hopper = Machine(arch="x86_64", capability=Capability(9, 0))
    >>> Machines(hopper).on() == hopper, str(Machines(hopper).for_target("sm_100a").capability)
    (True, '10.0')
    """

    def __init__(
        self, host: Machine | None = None, driver: CurrentDriver | None = None, installed: Installed | None = None
    ) -> None:
        self.driver = driver or CurrentDriver()
        self._installed = installed or Installed()
        self._host = host
        self._described = host is not None and bool(host.capability or host.absent)
        self._for_targets: dict[str, Machine] = {}
        self._facts: dict[tuple[int, int, str], int | str | None] = {}  # by process, device and name

    @property
    def host(self) -> Machine:
        """The host without its devices: nothing of CUDA is touched."""
        if self._host is None:
            ffi = self._installed.version_of("apache-tvm-ffi")
            self._host = Machine(arch=os.uname().machine, glibc=_glibc(), tvm_ffi=ffi)
        return self._host

    def any_like(self, machine: Machine) -> bool:
        """Whether what was queried about a machine holds for each of its devices, so that it does not matter which one
        is current: they have one capability, and equal values of every fact that was queried."""
        if self._described:
            return True
        driver = self.driver.get()
        if not isinstance(machine.query, DriverQuery) or not machine.query.names or len(driver.devices) == 1:
            return driver.uniform
        # Counting the clusters of a device creates a context on it, which an unused device should not get.
        names = machine.query.names
        if not driver.uniform or any(name.startswith("max_active_clusters_") for name in names):
            return False
        return all(
            self.fact(device.ordinal, name) == machine.query(name) for device in driver.devices for name in names
        )

    def on(self, device: object = None) -> Machine:
        """The host with one of its devices: an int, ``"cuda:1"``, a ``torch.device``, or None for the current one."""
        if self._described:
            return self.host
        try:
            current = self.driver.find(device)
            query = DriverQuery(self, current.ordinal)
            version = self.driver.get().version
            return replace(self.host, device=current, capability=current.capability, driver=version, query=query)
        except NoDriver as reason:
            return replace(self.host, absent=str(reason))

    def fact(self, ordinal: int, name: str) -> int | str | None:
        """One fact of a device, queried from the driver once; None where the driver does not report it."""
        driver = self.driver.get()
        key = (driver.process, ordinal, name)
        if key not in self._facts:
            with IMPORT_LOCK:
                from precast.loader.machine.facts import fact
            self._facts[key] = fact(driver, ordinal, name)
        return self._facts[key]

    def for_target(self, text: str) -> Machine:
        """The host with a device of the capability that a target such as ``sm_90a`` names."""
        machine = self._for_targets.get(text) if isinstance(text, str) else None
        if machine is None:
            machine = self.host.supposing(Target.parse(text))
            self._for_targets[text] = machine
        return machine


def _glibc() -> Version | None:
    try:
        library, _, text = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor, *_ = text.split(".")
        return (int(major), int(minor)) if library == "glibc" else None
    except (ValueError, OSError):
        return None
