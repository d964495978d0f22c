"""Build hook: compiles the call path into the loader's wheel, or into the source tree for an editable install.

Where it cannot be compiled, the wheel is pure Python, and kernels are called through ``tvm_ffi``. The variable
``PRECAST_NATIVE`` decides otherwise: ``1`` makes that an error, ``0`` leaves native code out.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "PRECAST_NATIVE"
NAME = "_callpath.abi3.so"
PAGE = "command_line/errors.md"
COMPILE = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-g0", "-ffile-prefix-map=/=")
LINK = ("-shared", "-Wl,--build-id=none,--hash-style=gnu,--gc-sections,-Bsymbolic,-z,now,-z,relro,-z,noexecstack,-s")
_OLDEST_GLIBC = 17  # of the wheel tags


class NotCompiled(Exception):
    """Native code cannot be compiled here; the message is the reason."""


class NativeCode(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles ``callpath`` and ``host_program``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is packed."""
        if version != "editable":
            page = Path(self.root, PAGE)  # of an sdist
            page = page if page.is_file() else Path(self.root).parent / "docs" / "errors.md"
            build_data["force_include"][str(page)] = PAGE
            # Before the rule of pyproject.toml for all files, which would put it into precast/loader.
            self.build_config.sources = {"fetch/": "precast/fetch/", **self.build_config.sources}
            fetch = Path(self.root, "fetch")  # of an sdist
            fetch = fetch if (fetch / "__init__.py").is_file() else Path(self.root).parent / "fetch"
            build_data["force_include"][str(fetch)] = "fetch"
        setting = os.environ.get(VARIABLE, "")
        if setting == "0":
            return
        source = Path(self.root, "native")
        self._scratch = Path(tempfile.mkdtemp(prefix="precast-native-"))
        try:
            compile_callpath(source, self._scratch / NAME)
        except NotCompiled as reason:
            if setting == "1":
                raise
            self.app.display_warning(f"precast-loader is built without native code: {reason}")
            return
        if version == "editable":
            (source / NAME).unlink(missing_ok=True)  # a process may have mapped the old file
            shutil.copyfile(self._scratch / NAME, source / NAME)
        else:
            build_data["force_include"][str(self._scratch / NAME)] = f"native/{NAME}"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{platform_tag((self._scratch / NAME).read_bytes())}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, once it is packed."""
        shutil.rmtree(getattr(self, "_scratch", ""), ignore_errors=True)


def compile_callpath(source: Path, output: Path) -> None:
    """Compile the call path with the compiler that ``CC`` names, or gcc."""
    compiler = shlex.split(os.environ.get("CC", "")) or ["gcc"]
    include = Path(sysconfig.get_paths()["include"])
    if sys.implementation.name != "cpython" or sys.abiflags:
        raise NotCompiled(f"this is {sys.implementation.name} {sys.abiflags}, which has no stable ABI of CPython")
    if not (include / "Python.h").is_file():
        raise NotCompiled(f"{include} has no Python.h: install Python's development files (python3-dev)")
    package = importlib.util.find_spec("tvm_ffi")
    if package is None or not package.submodule_search_locations:
        raise NotCompiled("tvm_ffi is not installed: pip install apache-tvm-ffi")
    ffi = Path(package.submodule_search_locations[0])
    folders = [source / "callpath", source / "host_program"]
    files = sorted(path for folder in folders for path in folder.glob("*.c"))
    includes = [f"-I{folder}" for folder in (*folders, ffi / "include")]
    command = [*compiler, *COMPILE, "-isystem", include, *includes, *files, *LINK, ffi / "lib" / "libtvm_ffi.so"]
    try:
        subprocess.run([*map(str, command), "-o", str(output)], check=True, capture_output=True, text=True)
    except OSError as error:
        raise NotCompiled(f"{compiler[0]} does not run ({error.strerror}): install gcc") from None
    except subprocess.CalledProcessError as error:
        raise NotCompiled(f"{compiler[0]} failed: {error.stderr.strip()[-2000:]}") from None


def platform_tag(library: bytes) -> str:
    """The platform of a library: the oldest glibc that has all symbols which it needs.

    >>> platform_tag(b"GLIBC_2.2.5 GLIBC_2.34").startswith("manylinux_2_34_")
    True
    """
    minors = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
    return f"manylinux_2_{max([_OLDEST_GLIBC, *minors])}_{platform.machine()}"
