"""The runtime library: the one small library that every variant of a cache is linked against.

It holds the compiler's shims of CUDA functions, the functions of the CUDA runtime that they call (``cuda_runtime.c``,
by the driver), and error helpers (``runtime.c``). The shims of what no kernel calls are not exported: a kernel that
calls one does not link. The library's name contains the digest of all inputs, so that caches of different builds work
in one process, each with its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from precast.build.disk.scratch import temporary_folder
from precast.build.errors import LinkError, ToolError
from precast.build.ipc.process_tree import describe_exit
from precast.build.ipc.tool import run_tool
from precast.build.link import elf
from precast.build.link.toolchain import Toolchain, file_digest
from precast.loader.contract.format.artifact import Host
from precast.loader.contract.format.config import canonical

SOURCES = tuple(Path(__file__).with_name(name) for name in ("runtime.c", "cuda_runtime.c"))
# The shims that kernels may call: those of the driver, and those of functions that cuda_runtime.c has.
_EXPORTS = (
    "_cu[A-Z]*", "cuda_dialect_*", "CuteDSLRT_*", "_cudaDeviceGetAttribute", "_cudaFuncSetAttribute", "_cudaGetDevice",
    "_cudaGetDeviceCount", "_cudaKernelSetAttributeForDevice", "_cudaLaunchKernel", "_cudaLaunchKernelEx",
    "_cudaLibraryGetKernel", "_cudaLibraryLoadData", "_cudaLibraryUnload", "_cudaSetDevice",
)  # fmt: skip
_MISSING = "precast_missing"
COMPILE = ("-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-g0", "-ffile-prefix-map=/=")
SHARED = ("-shared", "-Wl,--build-id=none,--hash-style=gnu,--gc-sections,-Bsymbolic,-z,now,-z,relro,-z,noexecstack,-s")
LINK = (*SHARED, "-Wl,-z,defs", "-Wl,--version-script=exports")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLibrary:
    """The linked runtime: its name, its bytes, the host it runs on."""

    soname: str
    code: bytes
    host: Host


def runtime_digest(toolchain: Toolchain) -> str:
    """The digest of all that goes into the runtime library, known before it is linked."""
    inputs = {
        "archive": file_digest(toolchain.archive),
        "sources": [file_digest(source) for source in SOURCES],
        "flags": [*COMPILE, *LINK, *_EXPORTS],
        "gcc": toolchain.versions["gcc"],
        "ld": toolchain.versions["ld"],
    }
    return hashlib.sha256(canonical(inputs)).hexdigest()


def soname(toolchain: Toolchain) -> str:
    """The name that variants carry for their runtime library."""
    return f"libprecast-rt-{runtime_digest(toolchain)[:16]}.so"


def link_runtime(toolchain: Toolchain) -> RuntimeLibrary:
    """Compile and link the runtime library.

    >>> from precast.build.link.toolchain import find_toolchain
    >>> link_runtime(find_toolchain()).soname.startswith("libprecast-rt-")
    True
    """
    name = soname(toolchain)
    with temporary_folder() as folder:
        run([toolchain.gcc, *COMPILE, "-c", *SOURCES], folder, "the runtime library's own code")
        own = [source.with_suffix(".o").name for source in SOURCES]
        run([toolchain.ld, "-r", "-o", "all", *own, "--whole-archive", toolchain.archive], folder, "the shims")
        absent = sorted(f for f in elf.undefined(Path(folder, "all").read_bytes()) if f.startswith("cuda"))
        Path(folder, "exports").write_text(f"{{ global: {'; '.join(_EXPORTS)}; local: *; }};\n")
        command: list[str | Path] = [toolchain.gcc, *LINK, *(f"-Wl,--defsym={f}={_MISSING}" for f in absent)]
        run([*command, f"-Wl,-soname,{name}", "-o", name, "all"], folder, "the runtime library")
        code = Path(folder, name).read_bytes()
    host = Host(arch=elf.host_arch(code), glibc=elf.oldest_glibc(code))
    return RuntimeLibrary(soname=name, code=code, host=host)


def run(command: list[str | Path], folder: str | Path, what: str) -> None:
    """Run a tool in a folder; the error holds what the tool printed, or the signal that ended it."""
    done = run_tool(command, folder)
    tool = Path(command[0]).name
    if done.returncode < 0:
        raise ToolError(f"{tool} {describe_exit(done.returncode)}, on {what}: build again")
    if done.returncode:
        output = done.stderr.strip()[-4000:]
        raise LinkError(f"{tool} failed on {what}; it printed:\n{output}\nCheck the toolchain with 'precast doctor'")
