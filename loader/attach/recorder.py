"""The recorder: adds the keys of this process to a recording, which many processes may share.

A line is written at once and whole, so that a killed program loses nothing that it has asked for.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from precast.loader.contract.recordings.recording import Recorded
from precast.loader.contract.recordings.untracked_compiles import UntrackedCompile
from precast.loader.errors import ConfigError
from precast.loader.fork_safe import ForkSafeLock


def recording_path() -> Path | None:
    """The file that ``PRECAST_RECORDING`` names."""
    named = os.environ.get("PRECAST_RECORDING")
    return Path(named) if named else None


class Recorder:
    """Adds keys to a file, each once a process; once more for a call whose text comes before that of the last one.

    Of several calls that make one key, which comes first is chance. The one that is kept is the least by its text.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: dict[str, Recorded | UntrackedCompile] = {}
        self._lock = ForkSafeLock()

    @property
    def path(self) -> Path | None:
        """The file; None where keys are kept in memory only."""
        return self._path

    def add(self, recorded: Recorded | UntrackedCompile) -> bool:
        """Write a key down, or a compilation without one, unless this process has already; whether it was new."""
        with self._lock:
            before = self._seen.get(recorded.key)
            if before is not None and before.text <= recorded.text:
                return False
            if self._path is not None:
                _append(self._path, recorded.text)
            self._seen[recorded.key] = recorded
            return True

    @property
    def left_out(self) -> tuple[str, ...]:
        """What was compiled without a key, and why, in order."""
        return tuple(sorted(f"{one.place}: {one}" for one in self._seen.values() if isinstance(one, UntrackedCompile)))

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """The keys that this process has written, in the order of their text."""
        keys = [one for one in self._seen.values() if isinstance(one, Recorded)]
        return tuple(sorted(keys, key=lambda one: one.text))


def _append(path: Path, text: str) -> None:
    """Add a line to a file, whole or not at all. A line that a killed process left unfinished is ended first."""
    try:
        with open(path, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
            line = (b"\n" if end and file.read(1) != b"\n" else b"") + text.encode() + b"\n"
            if file.write(line) != len(line):
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise ConfigError(f"the recording {path} cannot be written ({error}): name a file that can be") from error
