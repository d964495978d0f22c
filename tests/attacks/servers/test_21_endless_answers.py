"""A server whose answer never ends: lines of ``100 Continue``, headers that drip, sizes of chunks that drip, trailers.

Each byte comes in time, so a socket's own timeout never does. A request has a time for its headers, and one for the
rest.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from precast.fetch.transport.patience import Patience
from precast.fetch.transport.web import Web
from precast.loader.errors import FetchError

PATIENCE = Patience(tries=2, first=0.01, longest=0.02, timeout=0.2, slowest=1 << 20)
SECONDS = 2 * (2 * PATIENCE.timeout) + 3


def drip(data: bytes) -> Iterator[bytes]:
    for byte in data:
        yield bytes([byte])
        time.sleep(0.05)


def endless_continue() -> Iterator[bytes]:
    while True:
        yield b"HTTP/1.1 100 Continue\r\n\r\n" * 100


def slow_headers() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX-Long: "
    yield from drip(b"x" * 10_000)


def slow_sizes() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from drip(b"1;" + b"x" * 10_000)


def endless_trailers() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    while True:
        yield b"X-More: 1\r\n" * 100


def endless_rest() -> Iterator[bytes]:
    """Of an answer whose body is not read, since it is busy."""
    yield b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from drip(b"1;" + b"x" * 10_000)


@contextmanager
def server(answer: Callable[[], Iterator[bytes]]) -> Iterator[str]:
    """A server that sends this to all who ask; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=send, args=(connection,), daemon=True).start()

        def send(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                for part in answer():
                    connection.sendall(part)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [endless_continue, slow_headers, slow_sizes, endless_trailers, endless_rest])
def test_an_answer_without_end(answer: Callable[[], Iterator[bytes]]) -> None:
    begun = time.monotonic()
    with server(answer) as url, Web(PATIENCE) as web, pytest.raises(FetchError, match="2 attempts failed"):
        web.persist(url, lambda: web.request("GET", url, {}, limit=1 << 20))
    assert time.monotonic() - begun < SECONDS


def test_a_file_that_drips_is_left_though_each_try_gets_some_of_it() -> None:
    """A download continues where it was interrupted: then every try makes progress, and there would be thousands."""

    def dripping() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"
        yield from drip(b"x" * 10_000)

    received: list[int] = []
    patience = Patience(tries=6, first=0.01, longest=0.02, timeout=0.2, slowest=1000)
    with server(dripping) as url, Web(patience) as web:

        def add() -> None:
            received.append(0)
            with web.open("GET", url, {}) as body:
                for chunk in body.chunks(10_000):
                    received[-1] += len(chunk)

        with pytest.raises(FetchError, match="at less than 1000 bytes per second; 2 attempts failed"):
            web.persist(url, add, lambda: sum(received))
    assert len(received) == 2 and min(received) > 0


def test_what_is_slow_and_ends_is_read() -> None:
    def slowly() -> Iterator[bytes]:
        yield from drip(b"HTTP/1.1 200 OK\r\n")
        time.sleep(0.1)
        yield b"Content-Length: 5\r\n\r\n"
        yield from drip(b"hello")

    patience = Patience(tries=1, timeout=2.0)
    with server(slowly) as url, Web(patience) as web:
        assert web.request("GET", url, {}, limit=100).data == b"hello"
