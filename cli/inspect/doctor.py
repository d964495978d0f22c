"""Say what is installed, which GPU and caches there are, and what would not work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from precast.cli.inspect.facts import Facts, look
from precast.cli.shared.output import count, emit, terminal_width, wrap

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: its status, what was seen, and what to do about it, if anything."""

    name: str
    status: Status
    seen: str
    todo: str = ""


def command(
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is installed, which GPU and caches there are, and what would not work.

    Each line is ok, warn (something that is not needed everywhere is missing) or fail, with what to do.
    The exit status is 1 if a line fails.
    """
    checks = judge(look())
    emit([asdict(c) for c in checks], render(checks, terminal_width(sys.stdout)), json)
    if any(c.status == "fail" for c in checks):
        raise typer.Exit(1)


def judge(facts: Facts) -> tuple[Check, ...]:
    """Every finding about a machine, from its facts alone."""
    return (*_system(facts), *_packages(facts), *_tools(facts), *_devices(facts), *_caches(facts))


def render(checks: tuple[Check, ...], width: int | None = None) -> str:
    """The findings as text, then the number of failures and warnings. ``width`` is the terminal's, if it is one.

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


def _system(facts: Facts) -> Iterator[Check]:
    text = ".".join(map(str, facts.python))
    if (3, 10) <= facts.python[:2] < (3, 14):
        yield Check("python", "ok", text)
    else:
        yield Check("python", "fail", text, "use Python 3.10 to 3.13")
    seen = f"{facts.system} {facts.processor}"
    if facts.system == "Linux" and facts.processor in ("x86_64", "aarch64"):
        yield Check("system", "ok", seen)
    else:
        yield Check("system", "fail", seen, "use Linux on x86-64 or aarch64: nothing else is supported")
    if facts.glibc.startswith("glibc"):
        yield Check("libc", "ok", f"{facts.glibc}; what is built here may need this one or newer")
    else:
        yield Check("libc", "fail", facts.glibc or "not glibc", "use an image with glibc: artifacts are linked to it")


def _packages(facts: Facts) -> Iterator[Check]:
    needed = {
        "precast": "building",
        "precast-loader": "everything",
        "nvidia-cutlass-dsl": "building",
        "apache-tvm-ffi": "launching",
        "zstandard": "reading a cache",
    }
    for name, purpose in needed.items():
        version = facts.packages.get(name)
        if version:
            yield Check(name, "ok", version)
        else:
            yield Check(name, "fail", f"not installed; {purpose} needs it", f"pip install {name}")
    for name, purpose in {"torch": "references and torch tensors need it", "cuda-bindings": "cubins need it"}.items():
        version = facts.packages.get(name)
        where = "precast[torch]" if name == "torch" else "precast-loader[cubin]"
        if version:
            yield Check(name, "ok", version)
        else:
            yield Check(name, "warn", f"not installed; {purpose}", f"pip install '{where}' if you use them")


def _tools(facts: Facts) -> Iterator[Check]:
    if facts.cc:
        yield Check("C compiler", "ok", facts.cc)
    else:
        yield Check("C compiler", "fail", "not found; linking artifacts needs it", "install gcc, or set CC")
    if facts.cuobjdump:
        yield Check("cuobjdump", "ok", f"{facts.packages.get('nvidia-cuda-cuobjdump')}")
    else:
        todo = "pip install --force-reinstall nvidia-cuda-cuobjdump"
        yield Check("cuobjdump", "fail", "not found; reading registers and shared memory needs it", todo)
    if facts.cudart:
        yield Check("CUDA runtime", "ok", f"{facts.packages.get('nvidia-cuda-runtime-cu12')}, static")
    else:
        todo = "pip install --force-reinstall 'nvidia-cuda-runtime-cu12==12.9.*'"
        yield Check("CUDA runtime", "fail", "libcudart_static.a not found; linking the runtime needs it", todo)


def _devices(facts: Facts) -> Iterator[Check]:
    driver = facts.driver
    if driver.version is not None:
        seen = "CUDA {}.{}".format(*driver.version)
        if driver.version >= (12, 9):
            yield Check("driver", "ok", seen)
        else:
            yield Check("driver", "warn", f"{seen}, older than 12.9 of the runtime", "update the NVIDIA driver")
    if not driver.devices:
        todo = "to build and to resolve, nothing; to launch, use a machine with an NVIDIA driver and a visible GPU"
        yield Check("GPU", "warn", f"none: {driver.trouble}; launching will not work", todo)
    for ordinal, d in enumerate(driver.devices):
        seen = f"{d.name}, compute capability {d.capability}, {d.processors} multiprocessors"
        if d.capability.major >= 8:
            yield Check(f"GPU {ordinal}", "ok", seen)
        else:
            yield Check(f"GPU {ordinal}", "warn", seen, "use compute capability 8.0 or newer: the DSL builds no older")


_REPAIR = "reinstall or uninstall that cache's wheel; or build it again, or take it out of PRECAST_CACHE_PATH"


def _caches(facts: Facts) -> Iterator[Check]:
    if facts.caches_trouble:
        yield Check("caches", "fail", facts.caches_trouble, _REPAIR)
    elif not facts.caches:
        todo = "to use one, pip install a cache wheel, or set PRECAST_CACHE_PATH to the folder that precast build made"
        yield Check("caches", "warn", "none found; loader.get finds nothing", todo)
    for cache in facts.caches:
        place = f"{cache.path} ({cache.origin})"
        if cache.trouble:
            yield Check(f"cache {cache.name}", "fail", f"{place}: {cache.trouble}", _REPAIR)
        else:
            yield Check(f"cache {cache.name}", "ok", place)
