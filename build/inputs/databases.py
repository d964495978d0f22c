"""Databases: SQLite's files, of which a part may be in a log beside the file.

A reader opens, makes and removes the log (``-wal``) and its index (``-shm``) itself, and the last one moves the log's
content into the file. So neither a change of these during a build nor whether they exist means anything: the content of
the log does, if it has any.
"""

from __future__ import annotations

import os
from contextlib import suppress

_MAGIC = b"SQLite format 3\0"
_VERSIONS = slice(18, 20)  # in the header; both are 2 if there may be a log
_WITH_LOG = b"\2\2"
_LOG, _INDEX = "-wal", "-shm"


class Databases:
    """Which paths are databases with a log. Each file is read once.

    >>> Databases().log_of(__file__), Databases().is_beside("/nowhere/tiles.db-wal")
    (None, False)
    """

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def log_of(self, path: str) -> str | None:
        """The path of the log of a database; None if the path is not a database that may have one."""
        return path + _LOG if self.has_log(path) else None

    def is_beside(self, path: str) -> bool:
        """Whether a path is the log, or its index, of a database."""
        return path.endswith((_LOG, _INDEX)) and self.has_log(path[: -len(_LOG)])

    def has_log(self, path: str) -> bool:
        """Whether a path is a database that may have a log."""
        if path not in self._known:
            self._known[path] = _starts_as_database(path)
        return self._known[path]


def database_of(log: str) -> str:
    """The path of the database of a log.

    >>> database_of("/kernels/tiles.db-wal")
    '/kernels/tiles.db'
    """
    return log.removesuffix(_LOG)


def _starts_as_database(path: str) -> bool:
    with suppress(OSError, ValueError):
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            header = file.read(_VERSIONS.stop)
        return header.startswith(_MAGIC) and header[_VERSIONS] == _WITH_LOG
    return False
