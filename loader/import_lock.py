"""Late imports that no fork interrupts.

Python forgets the threads of a process in its forked child, but not the locks of the modules that they were
importing: a child that needs such a module would wait for ever. So code that imports late holds ``IMPORT_LOCK``, and a
fork waits for it.

>>> with IMPORT_LOCK:
...     import json
"""

from __future__ import annotations

import os
import threading

from precast.loader.errors import LoadError


class _Importing:
    """The lock. It also explains the error of a native module that does not load in a sub-interpreter."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._lock.release
        )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._lock.release()
        if isinstance(error, ImportError) and "subinterpreter" in str(error):
            raise LoadError(f"kernels are launched from the main interpreter only ({error}): call from there") from None


IMPORT_LOCK = _Importing()
