"""The record of an observer: what was requested so far, and what of it was not returned yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from precast.build.child.observe.file_states import MOST, FileStates
from precast.build.child.observe.loaded_modules import is_text

Row = tuple[str, str, str, int]
T = TypeVar("T")


class Record:
    """Requests of Python and of native code, names of missing modules, relative paths, and states of files.

    A process that is forked inherits it, and then returns only what is new.

    >>> record = Record()
    >>> record.ask("variable", "TILES", "/kernels/norm.py", 3)
    True
    >>> record.new_requests(made_here=lambda row: False)["asked"], record.new_requests(lambda row: False)["asked"]
    ([['variable', 'TILES', '/kernels/norm.py', 3]], [])
    """  # words: allow

    def __init__(self) -> None:
        self.requests: dict[Row, None] = {}
        self.native: dict[Row, None] = {}
        self.missing: dict[str, None] = {}
        self.relative: dict[str, None] = {}
        self.states = FileStates()
        self.complete = True
        self._returned: dict[str, int] = {}  # how many of each

    def texts(self, *values: str) -> bool:
        """Whether these can be recorded. If not, the record is incomplete."""
        self.complete &= (valid := is_text(*values))
        return valid

    def ask(self, kind: str, what: str, file: str, line: int) -> bool:
        """Add a request of Python, and return whether that was possible."""
        if len(self.requests) >= MOST:
            self.complete = False
            return False
        if not self.texts(what, file):
            return False
        self.requests[kind, what, file, line] = None
        return True

    def add_native(self, rows: list[Row]) -> None:
        """Add requests of native code and other programs."""
        self.complete &= len(self.native) + len(rows) < MOST
        for row in rows[:MOST]:
            if self.texts(row[1], row[2]):
                self.native[row] = None

    def new_requests(
        self, made_here: Callable[[Row], bool], barred: Callable[[str], bool] = lambda path: False
    ) -> dict[str, Any]:
        """All that was not returned yet, as JSON, without requests for what was ``made_here``. What is ``barred`` is
        returned as undeclared."""

        def rows(name: str, recorded: dict[Row, None]) -> list[list[str | int]]:
            new = [row for row in sorted(self._new(name, recorded)) if not made_here(row)]
            return [["undeclared" if barred(row[1]) else row[0], *row[1:]] for row in new]

        states, stamped = self.states, sorted(self._new("stamps", self.states.stamps))
        return {
            "asked": rows("asked", self.requests),
            "stamps": {path: states.stamps[path] for path in stamped},
            "digests": {path: states.digests[path] for path in stamped if path in states.digests},
            "native": rows("native", self.native),
            "relative": self._texts_of(self._new("relative", self.relative)),
            "missing": self._texts_of(self._new("missing", self.missing)),
        }

    def _texts_of(self, names: Iterable[str]) -> list[str]:
        return [name for name in sorted(names) if self.texts(name)]

    def _new(self, name: str, recorded: dict[T, Any]) -> list[T]:
        """The entries since the last call: a dictionary keeps its order, and nothing is removed from these. The others
        are not looked at: in a forked process, that would copy their pages."""
        returned, self._returned[name] = self._returned.get(name, 0), len(recorded)
        return list(islice(reversed(recorded), len(recorded) - returned))
