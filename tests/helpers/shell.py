"""Interactive shells for tests: a person types, and the shell's screen is read."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_SECONDS = 60
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[=>()][0-9A-B]?|.)")


class Shell:
    """A shell on a terminal of its own. Use it in a ``with`` block."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], list(words), dict(env))
        self.shown = ""

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def type(self, text: str, until: str) -> str:
        """Type, and wait until the screen shows a pattern; what it has shown since."""
        self.shown = ""
        os.write(self._terminal, text.encode())
        end = time.monotonic() + _SECONDS
        while not re.search(until, self.text, re.DOTALL):
            assert time.monotonic() < end, f"typed {text!r}; no {until!r} on the screen, which shows {self.text!r}"
            if select.select([self._terminal], [], [], 0.2)[0]:
                self.shown += os.read(self._terminal, 1 << 16).decode(errors="replace")
                if "\x1b[6n" in self.shown or "\x1b[c" in self.shown or "\x1b[0c" in self.shown:
                    os.write(self._terminal, b"\x1b[1;1R")  # fish asks where the cursor is
        return self.text

    @property
    def text(self) -> str:
        """What was shown, without what moves and colours."""
        return _CONTROL.sub("", self.shown).replace("\r", "")


def path_of(name: str) -> str | None:
    """The shell of this name, or None where it is not installed."""
    return shutil.which(name)
