"""``compute-sanitizer`` of the CUDA toolkit: its path, and the command line that runs another one under it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from precast.build.errors import ToolError

NAME = "compute-sanitizer"
FOUND = 86
"""Its exit status when it has found an error."""
_SHORTEST_PREFIX = 8  # letters that distinguish the kernels of a cache from torch's


def find(environment: Mapping[str, str]) -> str:
    """The program's path: on ``PATH``, or in the toolkit that ``CUDA_HOME`` or ``CUDA_PATH`` names.

    >>> find({"PATH": "/nowhere"})
    Traceback (most recent call last):
    precast.build.errors.ToolError: compute-sanitizer is neither on PATH nor in CUDA_HOME/bin: install the CUDA ...
    """
    on_path = shutil.which(NAME, path=environment.get("PATH", ""))
    if on_path:
        return on_path
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        path = Path(environment.get(variable) or "/nonexistent") / "bin" / NAME
        if os.access(path, os.X_OK):
            return str(path)
    raise ToolError(
        f"{NAME} is neither on PATH nor in CUDA_HOME/bin: install the CUDA toolkit, set CUDA_HOME to its folder, "
        "or leave --sanitizer out"
    )


def common_prefix(kernels: Sequence[str]) -> str:
    """The text that all names of some kernels start with, for the tool to check only these; '' means every kernel.

    Verify launches many kernels of torch beside each one of the cache: checking them all takes minutes a variant.

    >>> common_prefix(["kernel_cutlass_scale_0", "kernel_cutlass_add_0"])
    'kernel_cutlass_'
    >>> common_prefix(["kernel_cutlass_scale_0", "add"])
    ''
    """
    first, last = min(kernels, default=""), max(kernels, default="")
    shared = first[: next((i for i, letter in enumerate(first) if last[i : i + 1] != letter), len(first))]
    return shared if len(shared) >= _SHORTEST_PREFIX else ""


def wrapped(program: str, tool: str, words: Sequence[str], kernels: str = "") -> list[str]:
    """The command line that runs another one under a tool, which checks kernels whose names contain a text.

    >>> wrapped("compute-sanitizer", "memcheck", ["python"])
    ['compute-sanitizer', '--tool', 'memcheck', '--error-exitcode', '86', '--target-processes', 'all', 'python']
    >>> wrapped("compute-sanitizer", "memcheck", ["python"], "kernel_cutlass_")[-3:]
    ['--kernel-name', 'kernel_substring=kernel_cutlass_', 'python']
    """
    only = ["--kernel-name", f"kernel_substring={kernels}"] if kernels else []
    return [program, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all", *only, *words]


def run(tool: str, words: Sequence[str], kernels: str = "") -> int:
    """Run a command line under a tool, with the output of this process; the exit status.

    Torch then allocates every tensor separately, without guards, so that the tool sees a read past its end.
    """
    from precast.measure.checks.guarded import ALONE

    environment = {**os.environ, ALONE: "1"}
    return subprocess.run(wrapped(find(os.environ), tool, words, kernels), env=environment, check=False).returncode
