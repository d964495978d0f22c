"""The facts about this machine, as plain values: Python, tools, packages, caches, the CUDA driver and its devices."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from precast.build.link.versions import LIBRARIES, VARIABLE
from precast.loader.command_line.machine_facts import (
    CachesFacts,
    DriverFacts,
    caches_facts,
    driver_facts,
    has_native_code,
    installed_version,
)

PACKAGES = (
    "precast", "precast-loader", "precast-emulator", "nvidia-cutlass-dsl", "apache-tvm-ffi", *LIBRARIES.values(),
    "nvidia-cuda-cuobjdump", "zstandard", "torch",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the doctor judges.

    ``cuda`` is the version that the environment selects, if any; ``own_zstd`` is whether this Python's standard library
    decodes zstd; ``native_code`` whether the loader has its call path.
    """

    python: tuple[int, int, int]
    system: str
    processor: str
    glibc: str
    packages: Mapping[str, str | None]
    cc: str | None
    cxx: str | None
    cuobjdump: bool
    driver: DriverFacts
    caches: CachesFacts
    cuda: str = ""
    own_zstd: bool = False
    native_code: bool = True


def machine_facts() -> Facts:
    """The facts about this machine. Nothing slow is imported, and no CUDA context is created."""
    return Facts(
        python=sys.version_info[:3],
        system=platform.system(),
        processor=platform.machine(),
        glibc=" ".join(platform.libc_ver()).strip(),
        packages={name: installed_version(name) for name in PACKAGES},
        native_code=has_native_code(),
        cc=next(filter(None, map(shutil.which, (os.environ.get("CC") or "gcc", "cc"))), None),
        cxx=shutil.which("g++"),  # precast.emulator.interpreter_library looks for no other
        cuobjdump=_ships("nvidia-cuda-cuobjdump", "cuobjdump"),
        driver=driver_facts(),
        caches=caches_facts(),
        cuda=os.environ.get(VARIABLE, ""),
        own_zstd=sys.version_info >= (3, 14) and find_spec("_zstd") is not None,
    )


def _ships(package: str, filename: str) -> bool:
    """Whether an installed package has a file of this name, and the file exists."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return False
    return any(f.name == filename and os.path.isfile(str(f.locate())) for f in files)
