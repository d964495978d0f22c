"""Compiled C, shared by all tests, processes and runs: gcc takes longer than most tests that need what it makes.

What is kept is found by the digest of all that it was made from, in ``.work/compiled`` of a checkout; where there is
none, as in the kit of the GPU tests, each process keeps its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

_WORK = Path(__file__).resolve().parents[3] / ".work"


@cache
def folder() -> Path:
    """Where compiled files are kept."""
    if not os.access(_WORK, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="compiled-"))
    kept = _WORK / "compiled"
    kept.mkdir(exist_ok=True)
    return kept


def kept(inputs: Iterable[str | bytes | Path], make: Callable[[Path], object]) -> Path:
    """The file that ``make`` writes at a path, made once for the same inputs: texts, and files by their content."""
    digest = hashlib.sha256(_compiler())
    for one in inputs:
        data = one.read_bytes() if isinstance(one, Path) else one if isinstance(one, bytes) else one.encode()
        digest.update(hashlib.sha256(data).digest())
    path = folder() / digest.hexdigest()[:32]
    if not path.exists():
        with open(folder() / f"{path.name}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the files of a run need the same at the same time, and gcc takes long
            if not path.exists():
                with tempfile.TemporaryDirectory(dir=folder()) as scratch:
                    made = Path(scratch, path.name)
                    make(made)
                    made.replace(path)
    return path


@cache
def _compiler() -> bytes:
    """What tells this gcc from another one."""
    return subprocess.run(["gcc", "--version"], capture_output=True, check=True).stdout
