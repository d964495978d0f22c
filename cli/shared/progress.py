"""Progress of a command on stderr: the current stage, the running items, the rate and the time left.

On a terminal it is a display of a few lines, which ``rich.live`` redraws several times a second, so that the seconds of
running items keep counting. In a log (no terminal, or CI) each event is one whole line. ``rich.progress`` itself is not
used: it draws one bar for each task, and its estimate would count reused variants as built ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from precast.cli.shared.output import elide, plain, terminal_width
from precast.cli.shared.verbosity import verbosity

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_MOST_RUNNING = 8  # lines of the display for running items
_MOST_KEPT = 10  # lines of failed items that stay on the terminal
_PER_SECOND = 4
_LONG = 1.0  # seconds without a line
_ECHO = 2  # columns left free for ^C, the terminal's echo of Ctrl-C, which must not start a new line


@dataclass(slots=True)
class Progress:
    """The progress of items, several of which may run at once. Without a total it shows stages only.

    >>> import sys
    >>> with Progress(3, stream=sys.stdout) as progress:
    ...     progress.stage("starting workers")
    ...     progress.skip()
    ...     progress.begin("scale float16 sm_90a")
    ...     progress.step("scale float16 sm_90a", "0.10 s")
    starting workers
    [2/3] scale float16 sm_90a: 0.10 s
    """

    total: int = 0
    stream: TextIO = field(default_factory=verbosity.progress_stream)
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _skipped: int = 0
    _failed: int = 0
    _stage: tuple[str, float] | None = None
    _running: dict[str, float] = field(default_factory=dict)  # since when
    _begun: float | None = None
    _live: Live | None = None

    @property
    def plain(self) -> bool:
        """Whether each event is a line of a log."""
        return plain(self.stream)

    def __enter__(self) -> Progress:
        if not self.plain:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self._text,
                console=Console(file=self.stream),
                refresh_per_second=_PER_SECOND,
                transient=True,
                redirect_stdout=False,  # warnings on stderr appear above the display; results come after it
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def stage(self, text: str) -> None:
        """Show a stage, until the next stage or the next item."""
        if self._stage is not None and self._stage[0] == text:
            return
        self._stage = (text, self.clock())
        if self._live is None:
            print(text, file=self.stream, flush=True)

    def skip(self) -> None:
        """Count an item that needs no work as done, but not in the rate."""
        self.done += 1
        self._skipped += 1

    def begin(self, item: str) -> None:
        """Show an item as running."""
        now = self.clock()
        self._begun = now if self._begun is None else self._begun
        self._stage = None
        self._running[item] = now

    def step(self, item: str, note: str = "", *, keep: bool = False) -> None:
        """Count an item as done. ``keep`` means that it failed: its line stays on the terminal."""
        self.done += 1
        self._failed += keep
        self._stage = None
        self._running.pop(item, None)
        line = f"[{str(self.done).rjust(len(str(self.total)))}/{self.total}] {item}{': ' if note else ''}{note}"
        if self._live is None:
            print(line, file=self.stream, flush=True)
        elif keep and self._failed <= _MOST_KEPT:
            self._live.console.print(line, markup=False, highlight=False)

    def lines(self, width: int) -> list[str]:
        """The lines of the display, none longer than ``width``."""
        now = self.clock()
        lines = [self._head(now)] if self.total else []
        if self._stage is not None:
            text, since = self._stage
            lines.append(_timed(text, now - since, width))
        running = sorted(self._running.copy().items(), key=lambda item: item[1])
        lines += [_timed(f"  {item}", now - since, width) for item, since in running[:_MOST_RUNNING]]
        if len(running) > _MOST_RUNNING:
            lines.append(f"  and {len(running) - _MOST_RUNNING} more")
        return lines

    def _head(self, now: float) -> str:
        """The number of items done, their rate, and the time left."""
        notes = []
        built = self.done - self._skipped
        if built and self._begun is not None:
            each = max(now - self._begun, 1e-6) / built
            notes.append(f"{1 / each:.1f}/s" if each <= 1 else f"{each:.1f} s each")
            if self.done < self.total:
                notes.append(f"{_clock(each * (self.total - self.done))} left")
        if self._failed:
            notes.append(f"{self._failed} failed")
        return f"[{self.done}/{self.total}] {', '.join(notes)}".rstrip()

    def _text(self) -> Text:
        from rich.text import Text

        width = (terminal_width(self.stream) or 80) - _ECHO
        return Text("\n".join(self.lines(width)), no_wrap=True)


@contextmanager
def waiting(text: str, *, after: float = _LONG, stream: TextIO | None = None) -> Iterator[None]:
    """Print a line on stderr if the block takes longer than ``after`` seconds: no command is silent for long.

    >>> import sys
    >>> with waiting("importing kernels", after=60, stream=sys.stdout):
    ...     pass
    """
    target = verbosity.progress_stream() if stream is None else stream
    timer = Timer(after, lambda: print(f"{text} ...", file=target, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _timed(text: str, seconds: float, width: int) -> str:
    """A text and its seconds in one line; the middle of a text that is too long is cut out.

    >>> _timed("importing kernels", 61.4, 40), _timed("importing kernels", 0.2, 40)
    ('importing kernels  1:01', 'importing kernels')
    """
    if seconds < 1:
        return elide(text, width)
    note = f"  {_clock(seconds) if seconds >= 60 else f'{seconds:.0f} s'}"
    return elide(text, width - len(note)) + note


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}"
