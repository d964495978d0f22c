"""The observer's library: loaded before the C library in processes that compile or describe, and in their children.

It notes what native code and other programs read, where Python reports nothing. It is compiled once for a machine, and
kept under the digest of what goes into it. Without it, a build has the requests of Python alone.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from precast.build.disk.scratch import scratch_folder
from precast.build.errors import LinkError, ToolError
from precast.build.link.runtime import run
from precast.build.link.toolchain import program

SOURCES = Path(__file__).with_name("observer")
COMPILE = (
    "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-g0",
    "-fstack-protector-strong", "-ffile-prefix-map=/=",
)  # fmt: skip
LINK = ("-shared", "-Wl,--build-id=none,-z,defs,-z,now,-z,relro,-z,noexecstack,-s", "-ldl")
PRELOAD = "LD_PRELOAD"


@dataclass(frozen=True, slots=True)
class ObserverLibrary:
    """Where the library is, or the reason why there is none."""

    path: Path | None
    reason: str = ""


def compile_observer(output: Path, arguments: tuple[str, ...] = (), *, compiler: str = "gcc") -> None:
    """Compile the library into one file.

    Parameters
    ----------
    output
        The file.
    arguments
        Further arguments of gcc.
    compiler
        A gcc, such as one for another processor.
    """
    command: list[str | Path] = [program(compiler), *COMPILE, *sorted(SOURCES.glob("*.c")), *LINK, *arguments]
    run([*command, "-o", output], output.parent, "the observer's library")


@functools.cache
def find_observer(folder: Path | None = None) -> ObserverLibrary:
    """The library, compiled if it is not there yet.

    Parameters
    ----------
    folder
        Where it is kept; else a folder in the user's cache.

    >>> find_observer().reason
    ''
    """
    folder = folder or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "observer"
    try:
        path = folder.absolute() / f"{_digest()}.so"
        if ":" in str(path) or " " in str(path):  # the dynamic linker separates the names of libraries by these
            raise ToolError(f"{path} has a colon or a space, so that no program can load it: set XDG_CACHE_HOME")
        if not path.exists() or not _loads(path):  # a damaged file would be passed over in silence
            folder.mkdir(parents=True, exist_ok=True)
            with scratch_folder(folder, ".compile-") as scratch:
                compile_observer(scratch / path.name)
                if not _loads(scratch / path.name):
                    raise ToolError(
                        f"{sys.executable} does not load a library from {folder} before others: set XDG_CACHE_HOME if "
                        "that is mounted noexec; else use a Python that is linked dynamically"
                    )
                (scratch / path.name).replace(path)
    except (LinkError, ToolError, OSError) as error:
        return ObserverLibrary(None, str(error))
    return ObserverLibrary(path)


def observed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process, with the library where there is one. Others of the user come first.

    >>> observed_environment({"LD_PRELOAD": "own.so"})["LD_PRELOAD"].startswith("own.so:/")
    True
    """
    library = find_observer().path
    if library is None:
        return dict(environment)
    given = environment.get(PRELOAD)
    return {**environment, PRELOAD: f"{given}:{library}" if given else str(library)}


def _loads(path: Path) -> bool:
    """Whether this Python loads a library before others; one that is linked statically does not."""
    command = [sys.executable, "-I", "-c", "import ctypes; ctypes.CDLL(None).precast_observer_log"]
    return subprocess.run(command, env={PRELOAD: str(path)}, capture_output=True, check=False).returncode == 0


def _digest() -> str:
    compiler = program("gcc").resolve()
    facts = compiler.stat()
    parts = [platform.machine(), platform.libc_ver()[1], str(compiler), str(facts.st_size), str(facts.st_mtime_ns)]
    texts = [f"{path.name}\0{path.read_text()}" for path in sorted(SOURCES.iterdir())]
    return hashlib.sha256("\0".join([*parts, *COMPILE, *LINK, *texts]).encode()).hexdigest()[:32]
