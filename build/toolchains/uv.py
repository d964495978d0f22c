"""uv, which finds Pythons, resolves requirements and installs them: the program, running it, and its errors.

It reads its own settings: ``UV_INDEX_URL``, ``UV_FIND_LINKS`` and the others, and ``uv.toml`` of the user.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from precast.build.errors import ToolchainError, ToolError
from precast.build.interpreter import FROM_OUTSIDE

_LINES = 25  # of an error: uv explains a conflict in a paragraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of distributions, beside uv's own settings: folders of wheels, and nothing else if ``offline``."""

    find_links: tuple[Path, ...] = ()
    offline: bool = False

    @property
    def options(self) -> list[str]:
        """The options of uv.

        >>> Sources(find_links=(Path("/wheels"),), offline=True).options
        ['--find-links', '/wheels', '--offline', '--no-index']
        """
        folders = [word for folder in self.find_links for word in ("--find-links", str(folder.absolute()))]
        return [*folders, *(["--offline", *(["--no-index"] if folders else [])] if self.offline else [])]


def find_uv() -> Path:
    """The program: the one of the distribution ``uv``, else the first on the PATH; raises ToolError."""
    try:
        return Path(importlib.import_module("uv").find_uv_bin())
    except (ImportError, OSError):
        program = shutil.which("uv")
    if program is None:
        raise ToolError("a manifest's 'toolchain' needs uv, which is not installed: pip install 'precast[toolchains]'")
    return Path(program)


def run_uv(*words: str | Path) -> str:
    """Run uv and return its output; raises ToolchainError with its error.

    It runs in an empty folder, so that no project affects it.
    """
    environment = {name: value for name, value in os.environ.items() if name not in FROM_OUTSIDE}
    command = [find_uv(), "--color", "never", "--no-progress", *words]
    with tempfile.TemporaryDirectory(prefix="precast-uv-") as folder:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False,
        )  # fmt: skip
    if done.returncode:
        raise ToolchainError(error_text(done.stderr))
    return done.stdout


def error_text(text: str) -> str:
    """The error in the output of uv, without notes and warnings.

    >>> error_text("Using Python 3.11\\nwarning: slow\\nerror: no such version\\n")
    'error: no such version'
    """
    lines = [line.rstrip() for line in text.strip().splitlines()]
    errors = [n for n, line in enumerate(lines) if line.lstrip().startswith(("error:", "\u00d7"))]
    return "\n".join(lines[errors[0] if errors else 0 :][:_LINES]).strip()


def words_of(requirements: Iterable[str]) -> str:
    """Requirements as a file of them.

    >>> words_of(["a==1", "b"])
    'a==1\\nb\\n'
    """
    return "".join(f"{requirement}\n" for requirement in requirements)
