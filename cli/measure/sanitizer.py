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


def wrapped(program: str, tool: str, words: Sequence[str]) -> list[str]:
    """The command line that runs another one under a tool.

    >>> wrapped("compute-sanitizer", "memcheck", ["python"])
    ['compute-sanitizer', '--tool', 'memcheck', '--error-exitcode', '86', '--target-processes', 'all', 'python']
    """
    return [program, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all", *words]


def run(tool: str, words: Sequence[str]) -> int:
    """Run a command line under a tool, its output on this process's; the exit status.

    Torch then gives every tensor memory of its own, so that a read behind one is seen.
    """
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    return subprocess.run(wrapped(find(os.environ), tool, words), env=environment, check=False).returncode
