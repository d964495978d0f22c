"""Machines: the facts about where a kernel is to run, as a value, so that resolution is a pure function of them."""

from __future__ import annotations

import functools
import os
import sys

from precast.loader.fast_start.installed import version_of
from precast.loader.fast_start.values import Immutable, replace
from precast.loader.format.target import Capability, Target
from precast.loader.resolve import driver
from precast.loader.resolve.driver import Device, NoDriver

Version = tuple[int, int]


class Machine(Immutable, kw_only=True):
    """What decides whether an artifact runs here. ``absent`` says why there is no capability, where there is none.

    >>> Machine(arch="x86_64", capability=Capability(9, 0)).supposing(Target.parse("sm_100a")).capability
    Capability(major=10, minor=0)
    """

    arch: str
    glibc: Version | None = None
    python: str = ""
    tvm_ffi: str | None = None
    driver: Version | None = None
    device: Device | None = None
    capability: Capability | None = None
    target: Target | None = None
    absent: str = ""

    @functools.lru_cache(maxsize=64)  # noqa: B019 - there is one host
    def supposing(self, target: Target) -> Machine:
        """The same host with a device of the capability that ``target`` names, and a driver that is up to it."""
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


@functools.cache
def this_host() -> Machine:
    """This machine without its devices: nothing of CUDA is touched."""
    python = ".".join(map(str, sys.version_info[:3]))
    return Machine(arch=os.uname().machine, glibc=_glibc(), python=python, tvm_ffi=version_of("apache-tvm-ffi"))


def this_machine(device: object = None) -> Machine:
    """This machine with one of its devices: the one asked for, else the current one.

    Parameters
    ----------
    device
        ``None``, an int, ``"cuda:1"`` or a ``torch.device``.
    """
    host = this_host()
    try:
        found = driver.find_device(device)
        return replace(host, device=found, capability=found.capability, driver=driver.driver().version)
    except NoDriver as reason:
        return replace(host, absent=str(reason))


def _glibc() -> Version | None:
    try:
        library, _, text = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor, *_ = text.split(".")
        return (int(major), int(minor)) if library == "glibc" else None
    except (ValueError, OSError):
        return None
