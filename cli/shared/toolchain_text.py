"""A toolchain in one line: its compiler, its CUDA, its Python and its path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.build.interpreter import Interpreter
from precast.build.link.versions import DSL, LIBRARIES
from precast.build.toolchains.environments import Environment
from precast.cli.shared.output import size


def toolchain_text(versions: Mapping[str, str], python: str) -> str:
    """A toolchain in words, by the versions of its distributions.

    >>> versions = {"nvidia-cutlass-dsl": "4.7.1", "nvidia-cutlass-dsl-libs-cu13": "4.7.1", "numpy": "2.0"}
    >>> toolchain_text(versions, "CPython 3.12.1")
    'DSL 4.7.1, CUDA 13, CPython 3.12.1'
    """
    cudas = [str(cuda) for cuda, name in LIBRARIES.items() if name in versions]
    return ", ".join([f"DSL {versions.get(DSL, 'none')}", f"CUDA {' and '.join(cudas) or 'none'}", python])


def line_of(toolchain: Environment) -> str:
    """A toolchain in one line: the beginning of its name, its versions, its size and its path."""
    versions = toolchain_text(toolchain.versions, toolchain.python)
    return f"{toolchain.path.name[:12]}  {versions}, {size(toolchain.size)}: {toolchain.path}"


def toolchain_to_json(interpreter: Interpreter) -> dict[str, Any]:
    """A toolchain as ``--json`` prints it."""
    return {
        "python": interpreter.version,
        "lock": interpreter.lock,
        "locked": dict(interpreter.locked),
        "path": str(Path(interpreter.executable).parent.parent),
    }
