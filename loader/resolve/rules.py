"""Rules: why an artifact cannot serve a request on a machine. Each is a pure function that returns a reason or None."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.machine import Machine, Version, version
from precast.loader.resolve.candidate import Candidate, Requirements

if TYPE_CHECKING:
    from precast.loader.contract.format.index import Runtime

_CUDA = "cuda"  # the toolkit that the compiler's libraries were made with
_CUDA_OF = "cuda["  # that of one host
FFI = "apache-tvm-ffi"


def meaning(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    config = candidate.artifact.config
    differing = required.differing(config, candidate.artifact.signature)
    if differing:
        return "; ".join(
            f"{n} is {config[n]!r}, not {required.values[n]!r}" if n in config else f"its config has no {n}"
            for n in differing
        )
    return None


def described(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    unknown = sorted(set(candidate.artifact.config) - {key.name for key in required.keys})
    return f"its config has keys that its op does not declare: {', '.join(unknown)}" if unknown else None


def launchable(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    bare = not candidate.artifact.launchable
    return "a cubin without a host program: it is for tools to read and cannot be launched" if bare else None


def architecture(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    target = candidate.artifact.target
    if machine.capability is None:
        return f"built for {target}, and there is no CUDA device here"
    if not target.runs_on(machine.capability):
        here = f"this GPU is {machine.capability}" if machine.target is None else f"{machine.target} was requested"
        return f"built for {target}, {here}"
    return None


def host(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    built = candidate.artifact.host
    if built is not None and built.arch != machine.arch:
        return f"built for {built.arch} hosts, this one is {machine.arch}"
    return None


def glibc(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    needed = needed_glibc(candidate)
    if needed and (machine.glibc is None or machine.glibc < needed):
        here = f"this host has {version(machine.glibc)}" if machine.glibc else "this host has none"
        return f"needs glibc {version(needed)}, {here}"
    return None


def runtime(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    if candidate.artifact.kind == "object" and not runtimes_for(candidate):
        return "its cache has no runtime library for its host"
    return None


def driver(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    built = needed_cuda(candidate)
    if built and machine.driver and machine.driver[0] < built[0]:
        return f"made with CUDA {version(built)}, this driver is for CUDA {version(machine.driver)}"
    return None


def ffi_abi(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    built = candidate.source.index.toolchain.get(FFI)
    if machine.tvm_ffi is None:
        return f"needs {FFI}, which is not installed"
    if built is not None and _version(built) != _version(machine.tvm_ffi):
        return f"made with {FFI} {built}, {machine.tvm_ffi} is installed"
    return None


def assumptions(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    if candidate.artifact.assumes is None or machine.query is None:
        return None
    with IMPORT_LOCK:
        from precast.loader.resolve.assumptions import unmet
    return unmet(candidate.artifact, machine)


def verified(candidate: Candidate, required: Requirements, machine: Machine) -> str | None:
    if not required.verified:
        return None
    with IMPORT_LOCK:
        from precast.loader.resolve.evidence import EMULATED, unproven
    return unproven(candidate.artifact, machine.capability, emulated=required.verified == EMULATED) or None


RULES = (meaning, described, launchable, architecture, host, glibc, runtime, driver, ffi_abi, verified)
LAST_RULES = (assumptions,)
"""Rules that query the driver: run only if all other rules pass."""


def objections(candidate: Candidate, required: Requirements, machine: Machine) -> tuple[str, ...]:
    """Every reason why a candidate does not serve a request on a machine; none where it does."""
    reasons = _reasons(RULES, candidate, required, machine)
    return reasons or _reasons(LAST_RULES, candidate, required, machine)


def reservation(candidate: Candidate, machine: Machine) -> str:
    """Why a candidate that serves a request may be slower on this machine than one built for it; empty where not."""
    if candidate.artifact.assumes is None or machine.query is None:
        return ""
    with IMPORT_LOCK:
        from precast.loader.resolve.assumptions import slower
    return slower(candidate.artifact, machine)


Rule = Callable[[Candidate, Requirements, Machine], "str | None"]


def _reasons(
    rules: tuple[Rule, ...], candidate: Candidate, required: Requirements, machine: Machine
) -> tuple[str, ...]:
    reasons = tuple(reason for rule in rules if (reason := rule(candidate, required, machine)))
    if all(map(str.isprintable, reasons)):
        return reasons
    with IMPORT_LOCK:
        from precast.loader.terminal_text import on_one_line
    return tuple(map(on_one_line, reasons))


def needed_glibc(candidate: Candidate) -> Version | None:
    """The oldest glibc that an artifact runs with; None where it needs none."""
    hosts = (candidate.artifact.host, *[runtime.host for runtime in runtimes_for(candidate)])
    return max((_version(host.glibc) for host in hosts if host is not None), default=None)


def needed_cuda(candidate: Candidate) -> Version | None:
    """The CUDA toolkit that the compiler's libraries were made with; of several, the newest."""
    toolchain = candidate.source.index.toolchain.items()
    return max((_version(text) for name, text in toolchain if name == _CUDA or name.startswith(_CUDA_OF)), default=None)


def runtimes_for(candidate: Candidate) -> list[Runtime]:
    """The runtime libraries of a cache for the host of an artifact; none for a cubin."""
    built = candidate.artifact.host
    return [r for r in candidate.source.index.runtimes if built is not None and r.host.arch == built.arch]


@functools.lru_cache(maxsize=256)
def _version(text: str) -> tuple[int, int]:
    """The first two numbers of a version; a missing one counts as 0."""
    major, minor, *_ = [int(part) if part.isascii() and part.isdigit() else 0 for part in (*text.split("."), "0", "0")]
    return major, minor
