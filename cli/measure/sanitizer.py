"""``compute-sanitizer`` of the CUDA toolkit: where it is, and the command that runs another one under it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from precast.build.errors import ToolError

NAME = "compute-sanitizer"
FOUND = 86
"""The exit status with which it says that it found something."""
_TELLING = 8  # as many letters of a name tell a kernel of the cache from torch's


def find(environment: Mapping[str, str]) -> str:
    """The program's path: on ``PATH``, or in the toolkit that ``CUDA_HOME`` or ``CUDA_PATH`` names.

    >>> find({"PATH": "/nowhere"})
    Traceback (most recent call last):
    precast.build.errors.ToolError: there is no compute-sanitizer on PATH or in CUDA_HOME/bin: install the CUDA ...
    """
    on_path = shutil.which(NAME, path=environment.get("PATH", ""))
    if on_path:
        return on_path
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        place = Path(environment.get(variable) or "/nonexistent") / "bin" / NAME
        if os.access(place, os.X_OK):
            return str(place)
    raise ToolError(
        f"there is no {NAME} on PATH or in CUDA_HOME/bin: install the CUDA toolkit, set CUDA_HOME to where it is, "
        "or leave --sanitizer out"
    )


def watched(kernels: Sequence[str]) -> str:
    """What the names of some kernels begin with, so that others' are left alone; '' is every kernel.

    Verify launches many kernels of torch beside each one of the cache; to watch them all takes minutes a variant.

    >>> watched(["kernel_cutlass_scale_0", "kernel_cutlass_add_0"])
    'kernel_cutlass_'
    >>> watched(["kernel_cutlass_scale_0", "add"])
    ''
    """
    first, last = min(kernels, default=""), max(kernels, default="")
    shared = first[: next((i for i, letter in enumerate(first) if last[i : i + 1] != letter), len(first))]
    return shared if len(shared) >= _TELLING else ""


def wrapped(program: str, tool: str, words: Sequence[str], kernels: str = "") -> list[str]:
    """The command line that runs another one under a tool, which watches kernels whose names contain some text.

    >>> wrapped("compute-sanitizer", "memcheck", ["python"])
    ['compute-sanitizer', '--tool', 'memcheck', '--error-exitcode', '86', '--target-processes', 'all', 'python']
    >>> wrapped("compute-sanitizer", "memcheck", ["python"], "kernel_cutlass_")[-3:]
    ['--kernel-name', 'kernel_substring=kernel_cutlass_', 'python']
    """
    only = ["--kernel-name", f"kernel_substring={kernels}"] if kernels else []
    return [program, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all", *only, *words]


def run(tool: str, words: Sequence[str], kernels: str = "") -> int:
    """Run a command line under a tool, its output on this process's; the exit status.

    Torch then gives every tensor memory of its own, without guards, so that a read behind one is seen.
    """
    from precast.kernels.authoring.verification.guarded import ALONE

    environment = {**os.environ, ALONE: "1"}
    return subprocess.run(wrapped(find(os.environ), tool, words, kernels), env=environment, check=False).returncode
