"""A terminal for tests: runs a command under a pseudo-terminal and keeps what its screen shows."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
_OPEN_END = re.compile(r"\x1b(\[[0-9;?]*)?$")  # a sequence of which more is to come


@dataclass
class Screen:
    """The lines that a terminal of some width shows, after the control sequences that ``rich`` writes."""

    columns: int
    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0

    def feed(self, text: str) -> None:
        """Show more text; a line that is too long goes on in the next one, as on a terminal."""
        for code, letter, back, newline, plain in _CONTROL.findall(text):
            if letter == "A":
                self.row = max(self.row - int(code or 1), 0)
            elif letter == "K":
                kept = self.lines[self.row][: self.column] if code in ("", "0") else ""
                self.lines[self.row] = kept
            elif back:
                self.column = 0
            elif newline:
                self._down()
            else:
                for character in plain:
                    self._put(character)
        assert not text.replace("\x1b[", "").count("\x1b"), f"a sequence that this screen does not know: {text!r}"

    def _put(self, character: str) -> None:
        if self.column == self.columns:
            self._down()
            self.column = 0
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")


@dataclass(frozen=True)
class Session:
    """What a command did on its terminal: its exit status, each state of the screen, the last one as ``lines``.

    ``written`` has its colours, too.
    """

    status: int
    frames: tuple[str, ...]
    written: str

    @property
    def lines(self) -> list[str]:
        return self.frames[-1].splitlines()


def on_terminal(
    words: Sequence[object], *, columns: int = 80, env: Mapping[str, str] | None = None, interrupt_at: str = ""
) -> Session:
    """Run a command on a terminal of 24 rows. Ctrl-C is typed when the screen first shows ``interrupt_at``."""
    settings = {k: v for k, v in os.environ.items() if k not in ("CI", "COLUMNS", "LINES", "NO_COLOR")}
    settings |= {"TERM": "xterm", "PYTHONWARNINGS": "ignore", **(env or {})}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = os.fork()
    if child == 0:
        _login(slave)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execvpe(str(words[0]), [str(word) for word in words], settings)
    os.close(slave)
    decoder = codecs.getincrementaldecoder("utf-8")()
    screen, frames, rest, written = Screen(columns), [""], "", ""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        try:
            data = os.read(master, 1 << 16)
        except OSError:  # Linux's end of file on a terminal
            break
        text = rest + decoder.decode(data)
        written += text[len(rest) :]
        open_end = _OPEN_END.search(text)
        cut = open_end.start() if open_end else len(text)
        rest = text[cut:]
        screen.feed(text[:cut])
        frames.append("\n".join(line.rstrip() for line in screen.lines))
        if interrupt_at and interrupt_at in frames[-1]:
            interrupt_at = ""
            os.write(master, b"\x03")
    os.close(master)
    _, status = os.waitpid(child, 0)
    return Session(os.waitstatus_to_exitcode(status), tuple(frames), written)


def _login(slave: int) -> None:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
