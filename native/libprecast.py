"""libprecast, compiled: a header and a shared library for programs that load kernels without Python."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from precast.build.disk.output_folder import check_output_folder
from precast.build.disk.scratch import scratch_folder
from precast.build.link.runtime import run
from precast.build.link.toolchain import ffi_headers, program
from precast.native.tables import tables

# host_program is the loader's own: a link in the repository, a folder in a wheel.
NATIVE = Path(__file__).resolve().parent
HEADER = NATIVE / "include" / "precast.h"
COMPILE = (
    "-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-g0",
    "-fstack-protector-strong", "-ffile-prefix-map=/=",
)  # fmt: skip
_LINK = ("-shared", "-Wl,--build-id=none,-z,defs,-z,now,-z,relro,-z,noexecstack,-s", "-ldl", "-lpthread", "-lm")
_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..

Name: precast
Description: Kernels out of a precast cache, for programs without Python
Version: {abi}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -lprecast
"""


def abi() -> int:
    """The version of the interface, as the header states it.

    >>> abi()
    1
    """
    match = re.search(r"#define PRECAST_ABI ([0-9]+)", HEADER.read_text())
    assert match is not None
    return int(match[1])


def sources() -> list[Path]:
    """The C files: its own, and those that run host programs.

    >>> names = [path.name for path in sources()]
    >>> "json.c" in names, "launches.c" in names, "launcher.c" in names
    (True, True, False)
    """
    return sorted(path for folder in ("sources", "host_program") for path in (NATIVE / folder).rglob("*.c"))


def compile_sources(output: Path, arguments: Iterable[str | Path], *, compiler: str = "gcc") -> None:
    """Compile the C files into one file.

    Parameters
    ----------
    output
        The file.
    arguments
        Further arguments of gcc, such as a program that tests them.
    compiler
        A gcc, such as one for another processor.
    """
    output = output.absolute()  # gcc runs in a folder of its own
    with scratch_folder(output.parent, ".native-") as folder:
        for name, text in tables().items():
            (folder / name).write_text(text)
        rooms = sorted({path.parent for path in sources()})
        includes = (HEADER.parent, *rooms, folder, ffi_headers())
        command = [program(compiler), *COMPILE, *(f"-I{path}" for path in includes), *sources(), *arguments]
        run([*command, "-o", output], folder, "libprecast")


def write_library(output: Path) -> list[Path]:
    """Compile libprecast for this host, and write it with its header and a file for pkg-config.

    Parameters
    ----------
    output
        The folder that gets ``include``, ``lib`` and ``lib/pkgconfig``.
    """
    check_output_folder(output)
    name = f"libprecast.so.{abi()}"
    header, library, link = output / "include" / HEADER.name, output / "lib" / name, output / "lib" / "libprecast.so"
    config = output / "lib" / "pkgconfig" / "precast.pc"
    for path in (header, config):
        path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(output, ".native-") as folder:
        compile_sources(folder / name, (*_LINK, f"-Wl,-soname,{name}"))
        (folder / name).replace(library)
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    shutil.copyfile(HEADER, header)
    config.write_text(_PKG_CONFIG.format(abi=abi()))
    return [header, library, link, config]
