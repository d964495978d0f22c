"""Report what is installed, which GPUs and caches are present, and what will not work.

Each line is ok, warn (something is missing that not every machine needs) or fail, with what to do. Exit status 1
means that a line is fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import typer

from precast.build.doctor.cache_facts import REPAIR, Served
from precast.build.doctor.facts import Facts, machine_facts
from precast.build.errors import ToolError
from precast.build.link.versions import (
    DSL,
    LIBRARIES,
    RELEASES,
    RUNTIMES,
    VARIABLE,
    choose_cuda,
    known_versions,
    other_toolkit,
    release_of,
    runtime_to_install,
)
from precast.cli.shared import options
from precast.cli.shared.output import count, print_result, terminal_width, wrap
from precast.cli.shared.toolchain_text import line_of

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: its status, what was found, what to do about it, if anything, and the code of an error."""

    name: str
    status: Status
    seen: str
    todo: str = ""
    code: str = ""


def command(as_json: options.Json = False) -> None:
    checks = judge(machine_facts())
    print_result([asdict(check) for check in checks], render(checks, terminal_width(sys.stdout)), as_json)
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)


def judge(facts: Facts) -> tuple[Check, ...]:
    """The findings about a machine, from its facts alone."""
    return (
        *_system(facts), *_packages(facts), *_tools(facts), *_compiler(facts), *_devices(facts), *_caches(facts),
        *_shared(facts), *_libraries(facts), *_toolchains(facts),
    )  # fmt: skip


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


def _checked(name: str, good: bool, seen: str, problem: str, todo: str, status: Status = "fail") -> Check:
    """``seen`` if it is good, else the problem and what to do."""
    return Check(name, "ok", seen) if good else Check(name, status, problem, todo)


def _system(facts: Facts) -> Iterator[Check]:
    python, system = ".".join(map(str, facts.python)), f"{facts.system} {facts.processor}"
    yield _checked("python", (3, 10) <= facts.python[:2] < (3, 15), python, python, "use Python 3.10 to 3.14")
    supported = facts.system == "Linux" and facts.processor in ("x86_64", "aarch64")
    yield _checked("system", supported, system, system, "use Linux on x86-64 or aarch64; no other system is supported")
    yield _checked(
        "libc",
        facts.glibc.startswith("glibc"),
        f"{facts.glibc}; artifacts that are built here may need this version or newer",
        facts.glibc or "not glibc",
        "use an image with glibc: artifacts are linked to it",
    )


_REQUIRED = {
    "precast": "building",
    "precast-loader": "everything",
    "apache-tvm-ffi": "launching",
    "zstandard": "reading a cache",
}
_OPTIONAL = {
    "torch": ("references and torch tensors need it", "precast[torch]"),
}


def _packages(facts: Facts) -> Iterator[Check]:
    for name, purpose in _REQUIRED.items():
        version = facts.packages.get(name) or ""
        if name == "zstandard" and facts.own_zstd and not version:
            version = "not installed; this Python decodes zstd itself, which is enough to launch"
        yield _checked(name, bool(version), version, f"not installed; {purpose} needs it", f"pip install {name}")
    for name, (purpose, extra) in _OPTIONAL.items():
        version, todo = facts.packages.get(name) or "", f"pip install '{extra}' if you use them"
        yield _checked(name, bool(version), version, f"not installed; {purpose}", todo, "warn")
    yield _checked(
        "call path",
        facts.native_code,
        "native code of precast-loader",
        "precast-loader is installed without native code; calls go through tvm_ffi, and cubins cannot be launched",
        "install a wheel of precast-loader with native code for this host",
        "warn",
    )


def _tools(facts: Facts) -> Iterator[Check]:
    problem = "not found; linking artifacts needs it"
    yield _checked("C compiler", bool(facts.cc), str(facts.cc), problem, "install gcc, or set CC")
    version = str(facts.packages.get("nvidia-cuda-cuobjdump"))
    problem = "not found; reading registers and shared memory needs it"
    todo = "pip install --force-reinstall nvidia-cuda-cuobjdump"
    yield _checked("cuobjdump", facts.cuobjdump, version, problem, todo)


_OLDEST_DRIVER = {12: (12, 9), 13: (13, 0)}  # a driver runs code of every toolkit of its major version


def _installed(facts: Facts) -> list[int]:
    """The major versions of CUDA that the compiler has libraries for."""
    return [cuda for cuda, name in LIBRARIES.items() if facts.packages.get(name)]


def _chosen(facts: Facts) -> int:
    """The major version of CUDA that builds use; 0 if it is not known."""
    try:
        return choose_cuda(_installed(facts), facts.cuda)
    except ToolError:
        return 0


def _compiler(facts: Facts) -> Iterator[Check]:
    version = facts.packages.get(DSL)
    if not version:
        yield Check(DSL, "fail", "not installed; building needs it", f"pip install {DSL}")
        return
    release = release_of(version)
    untested = f"{version}, which is not tested; precast supports {known_versions()}"
    todo = f"if a build fails: pip install '{DSL}=={RELEASES[-1].dsl}.*'"
    yield _checked(DSL, release.known, version, untested, todo, "warn")
    try:
        cuda = choose_cuda(_installed(facts), facts.cuda)
    except ToolError as error:
        yield Check("CUDA", "fail", "the compiler has no libraries for it", str(error))
        return
    others = " and ".join(str(version) for version in _installed(facts) if version != cuda)
    yield Check("CUDA", "ok", f"{cuda}; {VARIABLE} selects {others}" if others else str(cuda))
    runtime = facts.packages.get(RUNTIMES[cuda])
    other = other_toolkit(cuda, release, runtime) if runtime else ""
    if cuda not in facts.cudart or not runtime:
        todo = runtime_to_install(cuda, release).replace("install", "install --force-reinstall")
        yield Check("CUDA runtime", "fail", "libcudart_static.a not found; linking the runtime needs it", todo)
    elif other:
        seen, _, todo = other.partition(": ")
        yield Check("CUDA runtime", "warn", f"{runtime}, static: of CUDA {seen}", todo)
    else:
        yield Check("CUDA runtime", "ok", f"{runtime}, static")


def _devices(facts: Facts) -> Iterator[Check]:
    driver = facts.driver
    if driver.version is not None:
        seen = "CUDA {}.{}".format(*driver.version)
        oldest = _OLDEST_DRIVER.get(_chosen(facts), min(_OLDEST_DRIVER.values()))
        older = "{}, older than {}.{} of the runtime".format(seen, *oldest)
        yield _checked("driver", driver.version >= oldest, seen, older, "update the NVIDIA driver", "warn")
    if not driver.devices:
        todo = "to launch, use a machine with an NVIDIA driver and a visible GPU; to build, no GPU is needed"
        yield Check("GPU", "warn", f"none: {driver.trouble}; launching will not work", todo)
    for ordinal, d in enumerate(driver.devices):
        seen = f"{d.name}, compute capability {d.capability}, {d.processors} multiprocessors"
        todo = "use a GPU of compute capability 8.0 or newer: the DSL supports no older one"
        yield _checked(f"GPU {ordinal}", d.capability.major >= 8, seen, seen, todo, "warn")


def _caches(facts: Facts) -> Iterator[Check]:
    if facts.caches_trouble:
        yield Check("caches", "fail", facts.caches_trouble, REPAIR, facts.caches_code)
    elif not facts.caches:
        todo = "pip install a cache wheel, or set PRECAST_CACHE_PATH to the folder of a cache"
        yield Check("caches", "warn", "none found; loader.get will find no kernel", todo)
    for cache in facts.caches:
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


def _shared(facts: Facts) -> Iterator[Check]:
    """Ops that several caches have. If these have the same variant, one of the two is never used."""
    for shared in facts.shared_ops:
        ops = ", ".join(shared.ops[:5]) + (f" and {len(shared.ops) - 5} more" if len(shared.ops) > 5 else "")
        seen = f"{ops} in {' and '.join(shared.caches)}"
        if not shared.common:
            yield Check("shared ops", "ok", f"{seen}; they have no variant in common")
            continue
        common = f"{count(shared.common, 'common variant')}"
        winner = f"{common}: the loader uses {shared.caches[0]}, because {shared.order}"
        todo = "to use the other, change the order or remove one; loader.explain(op, config) shows the choice"
        yield Check("shared ops", "warn", f"{seen}; {winner}", todo)


def _libraries(facts: Facts) -> Iterator[Check]:
    for library in facts.libraries:
        versions = " and ".join(library.recorded)
        if not library.installed:
            seen = f"not installed; the caches have kernels of {versions}, for programs that attach it"
            yield Check(library.distribution, "ok", seen)
        elif library.why:
            seen = f"{library.installed} is installed, but {library.why}: the caches serve it no kernel"
            todo = f"pip install --force-reinstall '{library.distribution}=={library.recorded[-1]}'"
            todo += "; or record the program again, build, and install the cache"
            yield Check(library.distribution, "warn", seen, todo)
        else:
            yield Check(library.distribution, "ok", f"{library.installed}, which caches were recorded with")


def _toolchains(facts: Facts) -> Iterator[Check]:
    for toolchain in facts.toolchains:
        name, _, seen = line_of(toolchain).partition("  ")
        yield Check(f"toolchain {name}", "ok", f"{seen}; to remove it: precast toolchains --remove {name}")
