"""The interpreter as a shared library: compiled once for a machine, and kept under the digest of what goes into it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from precast.emulator.errors import InterpreterError
from precast.emulator.structures import (
    CountsStructure,
    FaultStructure,
    LaunchStructure,
    ProgramStructure,
    ScheduleStructure,
)

SOURCES = Path(__file__).with_name("interpreter")
# No contraction of products and sums: a kernel's own fma is the only one.
COMPILE = (
    "-std=c++17", "-O3", "-fno-strict-aliasing", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-fvisibility=hidden",
    "-Wall", "-Wextra", "-Werror", "-march=native", "-ffile-prefix-map=/=",
)  # fmt: skip
LINK = ("-shared", "-Wl,--build-id=none,-z,defs")
STATIC = ("-static-libstdc++", "-static-libgcc")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SECONDS = 600  # of one compilation
SANITIZE = ("-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


@dataclass(frozen=True, slots=True)
class InterpreterLibrary:
    """The loaded library, and the numbers of its operations."""

    library: ctypes.CDLL
    operations: dict[str, int]
    digest: str


@functools.cache
def find_library(folder: Path | None = None, *, sanitize: bool = False) -> InterpreterLibrary:
    """The interpreter, compiled if it is not there yet.

    Parameters
    ----------
    folder
        Where it is kept; else a folder in the user's cache.
    sanitize
        Whether it checks its own memory accesses, for its tests.

    >>> "add_u32" in find_library().operations
    True
    """
    path = compile_library(folder or default_folder(), sanitize=sanitize)
    library = ctypes.CDLL(str(path))
    library.precast_operation_count.restype = ctypes.c_uint32
    library.precast_operation_name.restype = ctypes.c_char_p
    library.precast_operation_name.argtypes = [ctypes.c_uint32]
    library.precast_load.restype = None
    library.precast_load.argtypes = [ctypes.POINTER(ProgramStructure)]
    library.precast_run.restype = ctypes.c_int
    library.precast_run.argtypes = [
        ctypes.POINTER(LaunchStructure),
        ctypes.c_uint32,
        ctypes.POINTER(ScheduleStructure),
        ctypes.POINTER(CountsStructure),
        ctypes.POINTER(FaultStructure),
    ]
    names = [library.precast_operation_name(i).decode() for i in range(library.precast_operation_count())]
    return InterpreterLibrary(library, {name: i for i, name in enumerate(names)}, path.stem)


def default_folder() -> Path:
    """The folder in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "emulation"


def compile_library(folder: Path, *, sanitize: bool = False) -> Path:
    """Compile what changed, and return the library's path.

    Each source's object is kept under the digest of the source, of all headers and of the compiler, so that a change of
    one source compiles one. A file that is damaged, or that another user could have written, is compiled again.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise InterpreterError("g++ is not on the PATH: install it (on Debian and Ubuntu: apt-get install g++)")
    flags = (*COMPILE, *(SANITIZE if sanitize else ()))
    headers = sorted(SOURCES.rglob("*.h"))
    base = _digest(_compiler_facts(compiler), *flags, *(f"{p.relative_to(SOURCES)}\0{p.read_text()}" for p in headers))
    objects = {p: folder / f"{_digest(base, p.name, p.read_text())}.o" for p in sorted(SOURCES.rglob("*.cpp"))}
    link = (
        *LINK,
        *(() if sanitize else STATIC),
    )  # AddressSanitizer needs the C++ library that throws to be a shared one
    library = folder / f"{_digest(*link, *(path.stem for path in objects.values()))}.so"
    _take_folder(folder)
    if _is_intact(library):
        return library
    missing = sum(not _is_intact(path) for path in objects.values())
    text = f"precast-emulator: compiling with g++, once for this machine (files: {missing}; minutes for all)"
    print(text, file=sys.stderr, flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda item: _compile(compiler, flags, *item), objects.items()))
    _make(library, [compiler, *flags, *link, *objects.values()], "the interpreter")
    return library


def _take_folder(folder: Path) -> None:
    """Make the folder, for this user alone: code is loaded from it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = folder.stat()
    if state.st_uid != os.geteuid():
        raise InterpreterError(
            f"{folder} belongs to another user, who could put other code there: remove it, or set XDG_CACHE_HOME to a"
            " folder of your own"
        )
    if state.st_mode & _OTHERS_WRITE:
        folder.chmod(stat.S_IMODE(state.st_mode) & ~_OTHERS_WRITE)


def _is_intact(output: Path) -> bool:
    """Whether a file is whole and was written by this user.

    The dynamic linker maps a file as it is: it would end the process with a bus error where a truncated one is read.
    """
    try:
        state, expected = output.lstat(), _checksum(output).read_text()
        mine = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & _OTHERS_WRITE
        return mine and hashlib.sha256(output.read_bytes()).hexdigest() == expected
    except (OSError, UnicodeDecodeError):
        return False


def _checksum(output: Path) -> Path:
    """The file that has the SHA-256 of an output."""
    return output.with_suffix(output.suffix + ".sha256")


def _compile(compiler: str, flags: tuple[str, ...], source: Path, output: Path) -> None:
    if not _is_intact(output):
        _make(output, [compiler, *flags, "-c", source], str(source.relative_to(SOURCES)))


def _make(output: Path, command: list[str | Path], what: str) -> None:
    """Let the compiler write a file, which other processes see whole or not at all."""
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".writing-") as scratch:
        written = Path(scratch, output.name)
        _run([*command, "-o", written], what)
        written.chmod(stat.S_IMODE(written.stat().st_mode) & ~_OTHERS_WRITE)
        _checksum(written).write_text(hashlib.sha256(written.read_bytes()).hexdigest())
        _checksum(written).replace(_checksum(output))
        written.replace(output)


def _compiler_facts(compiler: str) -> str:
    """What the compiler defines for this processor: its version and the instructions that it uses."""
    return _run([compiler, "-march=native", "-dM", "-E", "-x", "c++", os.devnull], "an empty file")


def _run(command: list[str | Path], what: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InterpreterError(f"{command[0]} does not run ({error}): reinstall g++") from None
    if done.returncode:
        raise InterpreterError(
            f"g++ failed on {what}; it printed:\n{done.stderr.strip()[-4000:]}\nInstall g++ 9 or newer"
        )
    return done.stdout


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
