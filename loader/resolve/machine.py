"""Machines: the facts about where a kernel is to run, as a value, so that resolution is a pure function of them."""

from __future__ import annotations

import os

from precast.loader.fast_start.installed import Installed
from precast.loader.fast_start.values import Immutable, replace
from precast.loader.format.target import Capability, Target
from precast.loader.resolve.driver import CurrentDriver, Device, NoDriver

Version = tuple[int, int]


class Machine(Immutable, kw_only=True):
    """What decides whether an artifact runs here. ``absent`` says why there is no capability, where there is none.

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

    def supposing(self, target: Target) -> Machine:
        """The same host with a device of the capability that ``target`` names, and a driver that serves it."""
        return replace(self, driver=None, device=None, capability=target.capability, target=target, absent="")

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
        none, is taken as it is: no driver is asked. Tests describe a machine in this way.
    driver
        The driver to ask for devices.
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

    @property
    def host(self) -> Machine:
        """The host without its devices: nothing of CUDA is touched."""
        if self._host is None:
            ffi = self._installed.version_of("apache-tvm-ffi")
            self._host = Machine(arch=os.uname().machine, glibc=_glibc(), tvm_ffi=ffi)
        return self._host

    @property
    def uniform(self) -> bool:
        """Whether every device has the same capability, so that it does not matter which one is current."""
        return self._described or self.driver.get().uniform

    def on(self, device: object = None) -> Machine:
        """The host with one of its devices: an int, ``"cuda:1"``, a ``torch.device``, or None for the current one."""
        if self._described:
            return self.host
        try:
            found = self.driver.find(device)
            return replace(self.host, device=found, capability=found.capability, driver=self.driver.get().version)
        except NoDriver as reason:
            return replace(self.host, absent=str(reason))

    def for_target(self, text: str) -> Machine:
        """The host with a device of the capability that a target such as ``sm_90a`` names."""
        found = self._for_targets.get(text) if isinstance(text, str) else None
        if found is None:
            found = self.host.supposing(Target.parse(text))
            self._for_targets[text] = found
        return found


def _glibc() -> Version | None:
    try:
        library, _, text = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor, *_ = text.split(".")
        return (int(major), int(minor)) if library == "glibc" else None
    except (ValueError, OSError):
        return None
