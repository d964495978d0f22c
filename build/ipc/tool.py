"""Tools: programs such as gcc and ld, run to their end within limits."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from precast.build.errors import ToolError
from precast.build.ipc.process_tree import StopTimer, end_descendants

SECONDS = 600.0
_STOPPED_SECONDS = 5.0
_TURN_SECONDS = 0.5
# gcc and ld read many other variables, some of which change what they write: LD_RUN_PATH becomes the RUNPATH of a
# library, and COMPILER_PATH exchanges the linker.
_VARIABLES = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


def tool_environment() -> dict[str, str]:
    """The environment of tools: little of the caller's, and messages in English.

    >>> tool_environment()["LC_ALL"]
    'C'
    """
    return {**{name: os.environ[name] for name in _VARIABLES if name in os.environ}, "LC_ALL": "C"}


def run_tool(
    command: Sequence[str | Path], folder: str | Path | None = None, *, seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a program. It runs in the folder, if one is given, and has its temporary files there. What it printed is in
    the result.

    One that takes too long, or that a signal has stopped for some seconds, is ended with all that it has started; that
    is a ToolError.

    >>> run_tool(["sh", "-c", "echo $TMPDIR"], "/").stdout
    '/\\n'
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**tool_environment(), **({"TMPDIR": str(folder)} if folder else {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, errors = _communicate(process, Path(command[0]).name, seconds)
        except BaseException:
            end_descendants(process.pid)
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _communicate(process: subprocess.Popen[str], name: str, seconds: float) -> tuple[str, str]:
    """What the process printed, or a ToolError."""
    begun, stopped = time.monotonic(), StopTimer(_STOPPED_SECONDS)
    while True:
        try:
            return process.communicate(timeout=_TURN_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        if stopped.expired(process.pid):
            raise ToolError(f"{name} was stopped by a signal for {_STOPPED_SECONDS:g} s, and was ended: build again")
        if time.monotonic() - begun > seconds:
            raise ToolError(f"{name} did not end in {seconds:g} s, and was ended: check it with 'precast doctor'")
