"""Process starts: processes of ``multiprocessing``, whose requests this process does not see.

Those that ``ProcessPoolExecutor`` starts are among them, whether they are forked or spawned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Note = Callable[[str, str], None]


def watch_processes(note: Note) -> None:
    """Note each process that is started."""
    from multiprocessing.process import BaseProcess

    kind: Any = BaseProcess
    start = kind.start

    @functools.wraps(start)
    def watched(process: Any) -> None:
        note("process", "multiprocessing.Process")
        start(process)

    kind.start = watched
