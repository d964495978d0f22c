"""The runtime library: the one small library that every variant of a cache is linked against.

It holds the compiler's CUDA shims and the static CUDA runtime, plus the error helpers of ``runtime.c``. Its name
contains the digest of all inputs, so that caches of different builds work in one process, each with its own.

The call path of ``fastcall.c`` and ``host_program/`` is built here too. No variant is linked against it, so it is in
no variant's key.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from precast.build.disk.scratch import temporary_folder
from precast.build.errors import LinkError
from precast.build.link import elf
from precast.build.link.toolchain import Toolchain, file_digest
from precast.loader.format.artifact import Host
from precast.loader.format.config import canonical

SOURCE = Path(__file__).with_name("runtime.c")
FASTCALL = Path(__file__).with_name("fastcall.c")
HOST_PROGRAM = Path(__file__).with_name("host_program")
COMPILE = ("-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-g0", "-ffile-prefix-map=/=")
# The CUDA runtime's symbols stay local: another copy in the process, such as torch's, must not be used or changed.
SHARED = ("-shared", "-Wl,--build-id=none,--hash-style=gnu,--gc-sections,-Bsymbolic,-z,now,-z,relro,-z,noexecstack,-s")
LINK = (*SHARED, "-Wl,--exclude-libs,libcudart_static.a")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLibrary:
    """The linked runtime: its name, its bytes, the host it runs on; and the call path for the same host. In a cache of
    device code alone there is only the call path."""

    soname: str
    code: bytes
    host: Host
    fastcall: bytes = b""

    @property
    def callpath_alone(self) -> RuntimeLibrary:
        """What device code needs of it: nothing that is not this project's own."""
        if not self.fastcall:
            return replace(self, soname="", code=b"")
        glibc = elf.oldest_glibc(self.fastcall)
        return replace(self, soname="", code=b"", host=Host(arch=self.host.arch, glibc=glibc))


def runtime_digest(toolchain: Toolchain) -> str:
    """The digest of all that goes into the runtime library, known before it is linked."""
    inputs = {
        "archive": file_digest(toolchain.archive),
        "cudart": file_digest(toolchain.cudart),
        "source": file_digest(SOURCE),
        "flags": [*COMPILE, *LINK],
        "gcc": toolchain.versions["gcc"],
        "ld": toolchain.versions["ld"],
    }
    return hashlib.sha256(canonical(inputs)).hexdigest()


def soname(toolchain: Toolchain) -> str:
    """The name that variants carry for their runtime library."""
    return f"libprecast-rt-{runtime_digest(toolchain)[:16]}.so"


def link_runtime(toolchain: Toolchain) -> RuntimeLibrary:
    """Compile and link the runtime library, and the call path.

    >>> from precast.build.link.toolchain import find_toolchain
    >>> link_runtime(find_toolchain()).soname.startswith("libprecast-rt-")
    True
    """
    name = soname(toolchain)
    with temporary_folder() as folder:
        run([toolchain.gcc, *COMPILE, "-c", SOURCE, "-o", "runtime.o"], folder, "the runtime's error helpers")
        command: list[str | Path] = [toolchain.gcc, *LINK, f"-Wl,-soname,{name}", "-o", name, "runtime.o"]
        command += ["-Wl,--whole-archive", toolchain.archive, "-Wl,--no-whole-archive", toolchain.cudart]
        run([*command, "-ldl", "-lrt", "-lpthread"], folder, "the runtime library")
        code = Path(folder, name).read_bytes()
    host = Host(arch=elf.host_arch(code), glibc=elf.oldest_glibc(code))
    return RuntimeLibrary(soname=name, code=code, host=host, fastcall=link_fastcall(toolchain))


def callpath_sources() -> list[Path]:
    """The C files of the call path.

    >>> [path.name for path in callpath_sources()]
    ['fastcall.c', 'callpath.c', 'checks.c', 'launches.c', 'reader.c']
    """
    return [FASTCALL, *sorted(HOST_PROGRAM.glob("*.c"))]


def link_fastcall(toolchain: Toolchain) -> bytes:
    """Compile and link the call path: what packs Python's arguments, and what runs the host programs of cubins.

    It declares what it needs of Python itself, so that no Python.h is required, and uses only the oldest parts of the C
    library, so that it runs wherever the runtime library does. It contains nothing but this project's own code.
    """
    with temporary_folder() as folder:
        include = toolchain.ffi.parent / "include"
        sources = callpath_sources()
        for source in sources:
            command: list[str | Path] = [toolchain.gcc, *COMPILE, "-I", include, "-c", source]
            run([*command, "-o", f"{source.stem}.o"], folder, "the call path")
        linked = ["-o", "fastcall.so", *(f"{source.stem}.o" for source in sources)]
        run([toolchain.gcc, *SHARED, *linked, toolchain.ffi / "libtvm_ffi.so"], folder, "the call path")
        return Path(folder, "fastcall.so").read_bytes()


def run(command: list[str | Path], folder: str | Path, what: str) -> None:
    """Run a tool in a folder; the error holds what the tool printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        tool = Path(command[0]).name
        said = done.stderr.strip()[-4000:]
        raise LinkError(f"{tool} failed on {what}; it printed:\n{said}\nCheck the toolchain with 'precast doctor'")
