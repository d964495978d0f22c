"""Locks and tables that stay usable in a forked child, and a lock that a fork waits for."""

from __future__ import annotations

import os
import threading
import weakref

from precast.loader.errors import LoadError

TYPE_CHECKING = False  # typing's own would import typing, which takes longer than this
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    V = TypeVar("V")

_forkable: weakref.WeakSet[Any] = weakref.WeakSet()


class ForkSafeLock:
    """A lock that is free in a child made by ``fork``: the thread that held it does not exist there.

    >>> with ForkSafeLock():
    ...     pass
    """

    def __init__(self) -> None:
        self._free()
        _forkable.add(self)

    def _free(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class OnceTable:
    """A table whose values are made at their first use: one thread makes a value, the others that need it wait.

    An exception is not kept, so the next caller tries again. A child made by ``fork`` starts with free locks, since the
    threads that held them do not exist there.

    >>> lengths = OnceTable()
    >>> lengths.get("abc", lambda: 3)
    3
    """

    def __init__(self) -> None:
        self._ready: dict[Hashable, Any] = {}
        self._free()
        _forkable.add(self)

    def _free(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, AbstractContextManager[Any]] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of ``key``, made by ``make`` if no call before this one made it."""
        if key not in self._ready:
            with self._guard:
                lock = self._locks.setdefault(key, threading.RLock())
            with lock:
                if key not in self._ready:
                    self._ready[key] = make()
        value: V = self._ready[key]
        return value

    def values(self) -> tuple[Any, ...]:
        """The values made so far."""
        return tuple(self._ready.values())


class ForkWaits:
    """A lock that a fork of this process waits for: work under it is never left half done in the child.

    >>> with ForkWaits():
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        release = self._lock.release
        os.register_at_fork(before=self._lock.acquire, after_in_parent=release, after_in_child=release)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._lock.release()


def _free_all() -> None:
    for lock in _forkable:
        lock._free()


os.register_at_fork(after_in_child=_free_all)


class _ImportLock(ForkWaits):
    """The lock; it also explains the error of a native module that does not load in a sub-interpreter."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, ImportError) and "subinterpreter" in str(error):
            raise LoadError(f"kernels are launched from the main interpreter only ({error}): call from there") from None


IMPORT_LOCK = _ImportLock()
"""Held by code that imports late.

A forked child has no other threads of its parent, but it has the locks of the modules that they were importing: a child
that needs such a module would wait forever. So a fork waits for this lock.
"""
"""Held by code that imports late.

A forked child has no other threads of its parent, but it has the locks of the modules that they were importing: a child
that needs such a module would wait forever. So a fork waits for this lock.
"""
