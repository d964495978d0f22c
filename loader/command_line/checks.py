"""Checks: findings about a machine that launches kernels, each with what to do."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from precast.loader.command_line.cache_facts import REPAIR, AttachedLibrary, CacheFacts, Served, SharedOps
from precast.loader.command_line.machine_facts import (
    CachesFacts,
    DriverFacts,
    caches_facts,
    driver_facts,
    has_native_code,
    installed_version,
)
from precast.loader.command_line.text import count, wrap

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: its status, what was found, what to do about it, if anything, and the code of an error."""

    name: str
    status: Status
    seen: str
    todo: str = ""
    code: str = ""


def checked(name: str, good: bool, seen: str, problem: str, todo: str, status: Status = "fail") -> Check:
    """``seen`` if it is good, else the problem and what to do."""
    return Check(name, "ok", seen) if good else Check(name, status, problem, todo)


def render(checks: tuple[Check, ...], width: int | None = None) -> str:
    """The findings as text, then the number of failures and warnings. ``width`` is the terminal's, if there is one.

    >>> print(render((Check("gcc", "fail", "not found", "install gcc"),)))
    fail  gcc  not found
               -> install gcc
    1 failure, 0 warnings
    """
    longest = max(len(c.name) for c in checks)
    indent = " " * (longest + 8)
    room = max(width - len(indent) - 3, 20) if width else None
    lines = []
    for c in checks:
        seen = wrap(c.seen, room) if room else [c.seen]
        todo = wrap(c.todo, room) if room else [c.todo]
        lines.append(f"{c.status:<4}  {c.name:<{longest}}  {seen[0]}")
        lines += [f"{indent}{line}" for line in seen[1:]]
        if c.todo:
            lines.append(f"{indent}-> {todo[0]}")
            lines += [f"{indent}   {line}" for line in todo[1:]]
    failures, warnings = (sum(c.status == s for c in checks) for s in ("fail", "warn"))
    return "\n".join([*lines, f"{count(failures, 'failure')}, {count(warnings, 'warning')}"])


def loader_checks() -> Iterator[Check]:
    """The findings about this machine, where only the loader is installed."""
    yield from system_checks(sys.version_info[:2], platform.system(), platform.machine(), _glibc())
    own_zstd = sys.version_info >= (3, 14) and find_spec("_zstd") is not None
    for name in ("precast-loader", "apache-tvm-ffi", "zstandard"):
        yield package_check(name, installed_version(name) or "", own_zstd=own_zstd)
    yield call_path_check(has_native_code())
    yield from device_checks(driver_facts())
    yield from cache_checks(caches_facts())


def _glibc() -> str:
    return " ".join(platform.libc_ver()).strip()


def system_checks(python: tuple[int, ...], system: str, processor: str, glibc: str, note: str = "") -> Iterator[Check]:
    """Whether kernels can be launched on this system at all. ``note`` is what the version of libc means here."""
    version, host = ".".join(map(str, python)), f"{system} {processor}"
    yield checked("python", (3, 10) <= python[:2] < (3, 15), version, version, "use Python 3.10 to 3.14")
    supported = system == "Linux" and processor in ("x86_64", "aarch64")
    yield checked("system", supported, host, host, "use Linux on x86-64 or aarch64; no other system is supported")
    yield checked(
        "libc",
        glibc.startswith("glibc"),
        glibc + note,
        glibc or "not glibc",
        "use an image with glibc: artifacts are linked to it",
    )


_PURPOSES = {"precast": "building", "apache-tvm-ffi": "launching", "zstandard": "reading a cache"}


def package_check(name: str, version: str, *, own_zstd: bool = False) -> Check:
    """Whether a distribution is installed. ``own_zstd``: this Python decodes zstd itself.

    >>> package_check("apache-tvm-ffi", "").todo
    'pip install apache-tvm-ffi'
    """
    if name == "zstandard" and own_zstd and not version:
        version = "not installed; this Python decodes zstd itself, which is enough to launch"
    problem = f"not installed; {_PURPOSES.get(name, 'everything')} needs it"
    return checked(name, bool(version), version, problem, f"pip install {name}")


def call_path_check(native_code: bool) -> Check:
    """Whether calls go through native code."""
    return checked(
        "call path",
        native_code,
        "native code of precast-loader",
        "precast-loader is installed without native code; calls go through tvm_ffi, and cubins cannot be launched",
        "install a wheel of precast-loader with native code for this host",
        "warn",
    )


_OLDEST_DRIVER = {12: (12, 9), 13: (13, 0)}  # a driver runs code of every toolkit of its major version


def device_checks(driver: DriverFacts, cuda: int = 0) -> Iterator[Check]:
    """The driver and its GPUs. ``cuda`` is the major version that builds use, or 0."""
    if driver.version is not None:
        seen = "CUDA {}.{}".format(*driver.version)
        oldest = _OLDEST_DRIVER.get(cuda, min(_OLDEST_DRIVER.values()))
        older = "{}, older than {}.{} of the runtime".format(seen, *oldest)
        yield checked("driver", driver.version >= oldest, seen, older, "update the NVIDIA driver", "warn")
    if not driver.devices:
        todo = "to launch, use a machine with an NVIDIA driver and a visible GPU; to build, no GPU is needed"
        yield Check("GPU", "warn", f"none: {driver.trouble}; launching will not work", todo)
    for ordinal, d in enumerate(driver.devices):
        seen = f"{d.name}, compute capability {d.capability}, {d.processors} multiprocessors"
        todo = "use a GPU of compute capability 8.0 or newer: the DSL supports no older one"
        yield checked(f"GPU {ordinal}", d.capability.major >= 8, seen, seen, todo, "warn")


def cache_checks(facts: CachesFacts) -> Iterator[Check]:
    """The caches of this process, what several of them share, and the libraries that they serve."""
    if facts.trouble:
        yield Check("caches", "fail", facts.trouble, REPAIR, facts.code)
    elif not facts.caches:
        todo = "pip install a cache wheel, or set PRECAST_CACHE_PATH to the folder of a cache"
        yield Check("caches", "warn", "none found; loader.get will find no kernel", todo)
    yield from _caches(facts.caches)
    yield from _shared(facts.shared_ops)
    yield from _libraries(facts.libraries)


def _caches(caches: Iterable[CacheFacts]) -> Iterator[Check]:
    for cache in caches:
        path = f"{cache.path} ({cache.origin})"
        if cache.trouble:
            yield Check(f"cache {cache.name}", "fail", f"{path}: {cache.trouble}", cache.remedy, cache.code)
            continue
        yield Check(f"cache {cache.name}", "ok", path)
        yield from (_served(cache.name, served) for served in cache.served if served.total)


def _served(name: str, served: Served) -> Check:
    """How much of a cache a GPU runs. Only a part is usual: caches are built for several targets."""
    title, total = f"cache {name}, {served.gpu}", count(served.total, "artifact")
    if served.count:
        return Check(title, "ok", f"runs {served.count} of {total}")
    seen = f"{served.device}, runs none of {total}: {'; '.join(served.reasons)}"
    todo = "build the cache for this GPU, with its target in the manifest or --target; or correct what the reasons name"
    return Check(title, "warn", seen, todo)


def _shared(ops_of_several: Iterable[SharedOps]) -> Iterator[Check]:
    """Ops that several caches have. If these have the same variant, one of the two is never used."""
    for shared in ops_of_several:
        ops = ", ".join(shared.ops[:5]) + (f" and {len(shared.ops) - 5} more" if len(shared.ops) > 5 else "")
        seen = f"{ops} in {' and '.join(shared.caches)}"
        if not shared.common:
            yield Check("shared ops", "ok", f"{seen}; they have no variant in common")
            continue
        common = f"{count(shared.common, 'common variant')}"
        winner = f"{common}: the loader uses {shared.caches[0]}, because {shared.order}"
        todo = "to use the other, change the order or remove one; loader.explain(op, config) shows the choice"
        yield Check("shared ops", "warn", f"{seen}; {winner}", todo)


def _libraries(libraries: Iterable[AttachedLibrary]) -> Iterator[Check]:
    for library in libraries:
        versions = " and ".join(library.recorded)
        if not library.installed:
            seen = f"not installed; the caches have kernels of {versions}, for programs that attach it"
            yield Check(library.distribution, "warn" if library.why else "ok", seen, library.why)
        elif library.why:
            seen = f"{library.installed} is installed, but {library.why}: the caches serve it no kernel"
            todo = f"pip install --force-reinstall '{library.distribution}=={library.recorded[-1]}'"
            todo += "; or record the program again, build, and install the cache"
            yield Check(library.distribution, "warn", seen, todo)
        else:
            yield Check(library.distribution, "ok", f"{library.installed}, which caches were recorded with")
