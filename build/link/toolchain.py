"""The toolchain: the programs and libraries a build uses, found without importing any of them."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from precast.build.errors import ToolError
from precast.build.interpreter import distribution, version_of
from precast.build.ipc.tool import tool_environment
from precast.build.link.versions import (
    DSL,
    LIBRARIES,
    VARIABLE,
    Release,
    choose_cuda,
    release_of,
    toolkit,
    toolkit_number,
)
from precast.loader.contract.format.index import Index

PROGRAMS = ("gcc", "ld")  # each host has its own, while packages are the same for all


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Where each part is, and the versions that a cache is built with.

    ``archive`` holds the compiler's CUDA shims, static and for the major version ``cuda``; ``ffi`` is the folder of
    ``libtvm_ffi.so``. ``release`` is what holds for the compiler's version.
    """

    gcc: Path
    ld: Path
    cuobjdump: Path
    nvdisasm: Path | None
    archive: Path
    ffi: Path
    versions: dict[str, str]
    cuda: int = min(LIBRARIES)

    @property
    def release(self) -> Release:
        return release_of(self.versions[DSL])


@functools.cache
def find_toolchain() -> Toolchain:
    """Find every part, or raise a ToolError that says what to install.

    >>> find_toolchain().versions["nvidia-cutlass-dsl"]
    '4.8.1'
    """
    gcc = program("gcc")
    ld = Path(_output(gcc, "-print-prog-name=ld"))
    ld = ld if ld.is_absolute() else program(str(ld))
    cuda = find_cuda()
    versions = compiler_versions()
    versions["gcc"] = _output(gcc, "-dumpfullversion", "-dumpversion")
    versions["ld"] = _output(ld, "--version").splitlines()[0]
    libraries = distribution(LIBRARIES[cuda])
    return Toolchain(
        gcc=gcc,
        ld=ld,
        cuobjdump=_file(distribution("nvidia-cuda-cuobjdump"), "cuobjdump"),
        nvdisasm=_optional("nvidia-cuda-nvdisasm", "nvdisasm"),
        archive=_file(libraries, "libcuda_dialect_runtime_static.a"),
        ffi=ffi_folder(),
        versions=versions,
        cuda=cuda,
    )


def ffi_folder() -> Path:
    """Where the libraries of TVM-FFI are, which need no compiler.

    >>> (ffi_folder() / "libtvm_ffi.so").is_file()
    True
    """
    return _file(distribution("apache-tvm-ffi"), "libtvm_ffi.so").parent


def find_cuda() -> int:
    """The major version of CUDA that is built for: the one that is installed, or that the caller requests.

    >>> find_cuda()
    12
    """
    installed = {cuda for cuda, name in LIBRARIES.items() if version_of(name)}
    return choose_cuda(installed, os.environ.get(VARIABLE, ""))


def find_toolkit() -> int:
    """The CUDA toolkit of the compiler's libraries, as a driver numbers it.

    >>> find_toolkit()
    12090
    """
    return toolkit_number(find_cuda(), release_of(version_of(DSL)))


def compiler_versions() -> dict[str, str]:
    """The versions of the compiler, of TVM-FFI, and of the CUDA toolkit that the compiler's libraries were made with.

    >>> compiler_versions()["cuda"]
    '12.9'
    """
    cuda = find_cuda()
    versions = {name: distribution(name).version for name in (DSL, "apache-tvm-ffi")}
    return {**versions, "cuda": toolkit(cuda, release_of(versions[DSL]))}


@functools.cache
def file_digest(path: Path) -> str:
    """The SHA-256 of a file of the toolchain, read once."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def ffi_headers() -> Path:
    """The folder of TVM-FFI's headers, with DLPack's.

    >>> (ffi_headers() / "tvm" / "ffi" / "c_api.h").is_file()
    True
    """
    return _file(distribution("apache-tvm-ffi"), "c_api.h").parents[2]


def by_host(index: Index) -> dict[str, dict[str, str]]:
    """The versions that a cache was built with, for each of its hosts."""
    shared = {tool: version for tool, version in index.toolchain.items() if "[" not in tool}
    hosts: dict[str, dict[str, str]] = {}
    for host in sorted({r.host.arch for r in index.runtimes}) or [""]:
        own = {t.removesuffix(f"[{host}]"): v for t, v in index.toolchain.items() if t.endswith(f"[{host}]")}
        hosts[host] = {**shared, **own}
    return hosts


def for_all_hosts(hosts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The inverse of ``by_host``: a program whose version differs between hosts gets its host's name.

    >>> for_all_hosts({"x86_64": {"gcc": "12.2.0", "ld": "2.40"}, "aarch64": {"gcc": "13.3.0", "ld": "2.40"}})
    {'gcc[aarch64]': '13.3.0', 'gcc[x86_64]': '12.2.0', 'ld': '2.40'}
    """
    toolchain = {}
    for tool in sorted({tool for tools in hosts.values() for tool in tools}):
        versions = {host: tools[tool] for host, tools in sorted(hosts.items()) if tool in tools}
        if len(set(versions.values())) == 1 and len(versions) == len(hosts):
            toolchain[tool] = next(iter(versions.values()))
        else:
            toolchain.update({f"{tool}[{host}]": version for host, version in versions.items()})
    return toolchain


def program(name: str) -> Path:
    """Where a program is, by ``PATH``; a ToolError that says how to install it where there is none."""
    path = shutil.which(name)
    if path is None:
        raise ToolError(f"{name} is not on the PATH: install it (on Debian and Ubuntu: apt-get install gcc)")
    return Path(path)


def _output(program: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [program, *arguments], env=tool_environment(), capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"{program} does not run ({error}): reinstall it") from None
    return done.stdout.strip()


def _file(package: Distribution, name: str) -> Path:
    for path in package.files or ():
        if path.name == name and "stubs" not in path.parts:
            file = Path(str(package.locate_file(path)))
            if file.is_file():
                return file
    raise ToolError(f"{package.name} {package.version} holds no {name}: reinstall it, in the version precast pins")


def _optional(package: str, name: str) -> Path | None:
    try:
        return _file(distribution(package), name)
    except ToolError:
        return None
