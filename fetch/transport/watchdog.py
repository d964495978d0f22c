"""The watchdog: ends connections whose answer does not arrive in time.

A socket's own timeout counts from byte to byte, so a server that sends one every few seconds, or ``100 Continue`` or
trailers without end, would hold a request permanently.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.client import HTTPConnection

_TURN = 1.0  # seconds


class Watchdog:
    """Connections, each with the time of the monotonic clock until which it may stay. A thread ends the late ones."""

    def __init__(self) -> None:
        self._until: dict[HTTPConnection, float] = {}
        self._late: set[HTTPConnection] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def allow(self, connection: HTTPConnection, until: float) -> None:
        """Let a connection stay until a time."""
        with self._changed:
            self._late.discard(connection)
            sooner = until < self._until.get(connection, until + 1)
            self._until[connection] = until
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            if sooner:  # not for every part that arrives
                self._changed.notify()

    def release(self, connection: HTTPConnection) -> None:
        """Watch a connection no more."""
        with self._changed:
            self._until.pop(connection, None)
            self._late.discard(connection)

    def is_late(self, connection: HTTPConnection) -> bool:
        """Whether a connection was ended because its time was over."""
        with self._changed:
            return connection in self._late

    def _watch(self) -> None:
        """End late connections; the thread ends with the last connection."""
        with self._changed:
            while self._until:
                for connection in [c for c, until in self._until.items() if until <= time.monotonic()]:
                    self._late.add(connection)
                    if _end(connection):
                        del self._until[connection]
                left = min(self._until.values(), default=0.0) - time.monotonic()
                if self._until:
                    self._changed.wait(min(max(left, 0.01), _TURN))
            self._thread = None


def _end(connection: HTTPConnection) -> bool:
    """Wake the thread that reads from a connection; False while it has no socket yet. A TLS socket is left as it is:
    its own ``shutdown`` would change it under that thread."""
    if connection.sock is None:
        return False
    with suppress(OSError):
        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
    return True
