"""The recorder: adds the keys of this process to a recording, which many processes may share.

A line is written at once and whole, so that a killed program loses no key that it has requested.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from precast.attach.recordings.recording import Recorded
from precast.attach.recordings.untracked_compiles import UntrackedCompile
from precast.loader.errors import ConfigError
from precast.loader.locks import ForkSafeLock


def recording_path() -> Path | None:
    """The file that ``PRECAST_RECORDING`` names."""
    named = os.environ.get("PRECAST_RECORDING")
    return Path(named) if named else None


class Recorder:
    """Adds keys to a file, each once per process; again for a call whose text sorts before the one already written.

    Several calls may have one key, and which comes first is chance: the one with the smallest text is kept.
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
        """Write a key, or a compilation without one, unless this process has already; returns whether it was new."""
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
        """What was compiled without a key, and why, sorted."""
        return tuple(
            sorted(f"{entry.place}: {entry}" for entry in self._seen.values() if isinstance(entry, UntrackedCompile))
        )

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """The keys that this process has written, in the order of their text."""
        keys = [entry for entry in self._seen.values() if isinstance(entry, Recorded)]
        return tuple(sorted(keys, key=lambda entry: entry.text))


def _append(path: Path, text: str) -> None:
    """Add a line to a file, whole or not at all. An unfinished line of a killed process is ended first."""
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
        raise ConfigError(f"cannot write the recording {path} ({error}): name a file that can be written") from error
