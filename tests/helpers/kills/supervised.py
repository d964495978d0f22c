"""Commands that are started to be killed: what they leave running, and how long they take."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from precast.build.ipc.process_tree import adopt_orphans, descendants, has_ended, reap

ORPHANS = 10.0
"""Seconds within which all processes of a killed command have ended."""


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``orphans`` were still running some seconds later, and were killed then."""

    code: int | None
    seconds: float
    output: str
    errors: str
    orphans: tuple[str, ...]


class Supervised:
    """A running command. This process adopts what it leaves behind; use one at a time."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        adopt_orphans()
        self._files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - end() closes them
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=self._files[0], stderr=self._files[1]
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._begun

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def until(self, found: Callable[[], Sequence[int]], moment: float) -> Sequence[int]:
        """What is found first after so many seconds; nothing if the command ends before."""
        while self.runs:
            if self.seconds >= moment and (pids := found()):
                return pids
            time.sleep(0.002)
        return ()

    def end(self, limit: float, besides: Sequence[int] = ()) -> Ended:
        """Wait for its end, at most until so many seconds after its start. It is killed then, and has no code.

        The processes ``besides`` may run on.
        """
        try:
            code: int | None = self._process.wait(max(0.1, limit - self.seconds))
        except subprocess.TimeoutExpired:
            code = None
            self._process.kill()
            self._process.wait()
        seconds = self.seconds
        orphans = _orphans(besides)
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Ended(code, seconds, texts[0], texts[1], orphans)


def _orphans(besides: Sequence[int]) -> tuple[str, ...]:
    """What descendants of this process are still there after some seconds."""
    begun = time.monotonic()
    while left := _left(besides):
        if time.monotonic() - begun > ORPHANS:
            words = tuple(_command_line(pid) for pid in left)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return words
        time.sleep(0.02)
    if not besides:
        reap()
    return ()


def _left(besides: Sequence[int]) -> list[int]:
    others = {*besides, *(below for pid in besides if pid for below in descendants(pid))}
    return [pid for pid in descendants(os.getpid()) if pid not in others and not has_ended(pid)]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return str(pid)
