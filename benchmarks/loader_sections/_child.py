"""Measured processes: fresh ones, with the byte code of every module at hand, as an installer leaves it."""

from __future__ import annotations

import os
import subprocess
import sys


def child(script: str, **environment: str) -> str:
    """The last line that a script prints in a process of its own.

    Byte code is written where there is none, so the first process of a kind is to be run before the measured ones.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**env, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"a measured process failed:\n{done.stderr[-3000:]}")
    return done.stdout.splitlines()[-1]
