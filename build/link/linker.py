"""Linking: from a compiled object to the shared library that the loader opens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from precast.build.disk.scratch import temporary_folder
from precast.build.errors import LinkError
from precast.build.ipc.tool import run_tool
from precast.build.link import elf
from precast.build.link.runtime import RuntimeLibrary, run
from precast.build.link.toolchain import Toolchain
from precast.build.link.versions import DSL, advice
from precast.loader.contract.format.artifact import Host

FLAGS = ("-shared", "--build-id=none", "--hash-style=gnu", "--gc-sections", "-z", "now", "-z", "noexecstack", "-s")
_MADE_BY_LD = {"_GLOBAL_OFFSET_TABLE_"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A linked variant: its bytes and the host it runs on."""

    code: bytes
    host: Host


class Linker:
    """Links objects against one runtime library. Safe to use from several threads."""

    def __init__(self, toolchain: Toolchain, runtime: RuntimeLibrary) -> None:
        self._toolchain, self._runtime = toolchain, runtime

    def link(self, code: bytes, symbol: str) -> Library:
        """Link one object that defines ``symbol``; an error if it needs symbols that the runtime and TVM-FFI lack.

        Each link has a folder of its own: a kernel that empties the temporary folder must not affect the next one.
        """
        if symbol not in elf.symbols(code):
            raise LinkError(f"the object does not define {symbol}: compile it with TVM-FFI enabled")
        with temporary_folder() as folder:
            Path(folder, self._runtime.soname).write_bytes(self._runtime.code)
            Path(folder, "variant.o").write_bytes(code)
            Path(folder, "exports").write_text(f"{{ global: {symbol}; local: *; }};\n")
            command: list[str | Path] = [self._toolchain.ld, *FLAGS, "--no-undefined", "--version-script=exports"]
            command += ["-o", "variant.so", "variant.o", self._runtime.soname]
            command += [self._toolchain.ffi / "libtvm_ffi.so", *host_libraries(self._toolchain)]
            try:
                run(command, folder, symbol)
            except LinkError as error:
                raise self._explained(error, code, symbol) from None
            library = Path(folder, "variant.so").read_bytes()
        self._check(library, symbol)
        glibc = max(elf.oldest_glibc(library), self._runtime.host.glibc, key=_version)
        return Library(code=library, host=Host(arch=elf.host_arch(library), glibc=glibc))

    def _check(self, library: bytes, symbol: str) -> None:
        """Refuse a library that brings others to the hosts that open it: a linker may have defaults of its own."""
        expected = {self._runtime.soname, "libtvm_ffi.so", *self._toolchain.release.libraries}
        foreign = [name for name in elf.needed(library) if name not in expected]
        if added := [*foreign, *elf.search_paths(library)]:
            raise LinkError(
                f"{self._toolchain.ld} added {', '.join(added)} to the library of {symbol}: use the distribution's"
                " linker (binutils), without a wrapper or a configuration that adds libraries or search paths"
            )

    def _explained(self, error: LinkError, code: bytes, symbol: str) -> LinkError:
        """The linker's refusal in other words, where what the object needs is nowhere."""
        provided = (self._runtime.code, (self._toolchain.ffi / "libtvm_ffi.so").read_bytes())
        missing = elf.undefined(code).difference(_MADE_BY_LD, *map(elf.symbols, provided))
        if not missing:
            return error
        version = self._toolchain.versions[DSL]
        return LinkError(
            f"{symbol} needs {', '.join(sorted(missing))}, which neither the runtime library nor TVM-FFI has."
            f" {advice(version)}"
        )


def host_libraries(toolchain: Toolchain) -> tuple[str | Path, ...]:
    """What a link command has last: libraries of this host, each only where an object calls it."""
    names = toolchain.release.libraries
    return ("--as-needed", *(_host_library(toolchain.gcc, name) for name in names)) if names else ()


def _host_library(gcc: Path, name: str) -> Path:
    library = Path(run_tool([gcc, f"-print-file-name={name}"]).stdout.strip())
    if not library.is_absolute():
        raise LinkError(f"gcc finds no {name}: install the C library (on Debian and Ubuntu: apt-get install libc6)")
    return library


def _version(glibc: str) -> tuple[int, ...]:
    return tuple(map(int, glibc.split(".")))
