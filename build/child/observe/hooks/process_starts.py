"""Process starts: processes of ``multiprocessing``, which Python reports in other ways than programs.

Those that ``ProcessPoolExecutor`` starts are among them, whether they are forked or spawned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Note = Callable[[str], None]


def watch_processes(note: Note, end: Callable[[], None]) -> None:
    """Note each process that is started, and call ``end`` when it is."""
    from multiprocessing.process import BaseProcess

    kind: Any = BaseProcess
    start = kind.start

    @functools.wraps(start)
    def watched(process: Any) -> None:
        note("multiprocessing.Process")
        try:
            start(process)
        finally:
            end()

    kind.start = watched
