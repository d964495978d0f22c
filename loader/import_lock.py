"""Late imports that no fork interrupts.

A forked child has no other threads of its parent, but it has the locks of the modules that they were
importing: a child that needs such a module would wait forever. So code that imports late holds ``IMPORT_LOCK``, and a
fork waits for it.

>>> with IMPORT_LOCK:
...     import json
"""

from __future__ import annotations

from precast.loader.errors import LoadError
from precast.loader.fork_safe import ForkWaits


class _ImportLock(ForkWaits):
    """The lock; it also explains the error of a native module that does not load in a sub-interpreter."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, ImportError) and "subinterpreter" in str(error):
            raise LoadError(f"kernels are launched from the main interpreter only ({error}): call from there") from None


IMPORT_LOCK = _ImportLock()
