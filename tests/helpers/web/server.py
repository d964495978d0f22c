"""A web server of a test: a function from requests to responses, which may be cut, and a log of what was asked."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """``cut`` ends the connection after so many bytes of the body."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None

    def changed(self, **changes: Any) -> Response:
        return replace(self, **changes)


Handler = Callable[[Request], Response]


@dataclass
class Server:
    """A server that runs. ``handler`` may be replaced while it does."""

    handler: Handler
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.url.partition("://")[2]

    def asked(self, text: str, method: str = "GET") -> int:
        """How many requests had this in their path."""
        return sum(text in request.path and request.method == method for request in self.requests)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what tests are about."""


@contextmanager
def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on a free port of this machine."""
    server = Server(handler)

    class One(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        disable_nagle_algorithm = True  # else each answer waits for an acknowledgement

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(length))
            server.requests.append(request)
            try:
                response = server.handler(request)
            except BaseException as error:
                server.errors.append(error)
                response = Response(599)
            self.send_response(response.status)
            sent = {name.lower() for name in response.headers}
            for name, value in response.headers.items():
                self.send_header(name, value)
            if not sent & {
                "content-length",
                "connection",
            }:  # the end of a connection says it, too
                self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body if response.cut is None else response.body[: response.cut])
            if response.cut is not None:
                self.wfile.flush()
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    http = _Quiet(("127.0.0.1", 0), One)
    server.url = f"{'https://localhost' if tls else 'http://127.0.0.1'}:{http.server_address[1]}"
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
    assert not server.errors, server.errors


def ranged(request: Request, data: bytes) -> Response:
    """A file, or the range of it that was asked for."""
    asked = request.headers.get("range", "")
    if not asked:
        return Response(200, {"Accept-Ranges": "bytes"}, data)
    first, _, last = asked.removeprefix("bytes=").partition("-")
    begin, end = int(first), min(int(last), len(data) - 1)
    if begin >= len(data):
        return Response(416, {"Content-Range": f"bytes */{len(data)}"})
    return Response(206, {"Content-Range": f"bytes {begin}-{end}/{len(data)}"}, data[begin : end + 1])


def files_of(folder: Path, *, ranges: bool = True) -> Handler:
    """Serve the files of a folder, as a static web server does."""

    def handle(request: Request) -> Response:
        path = folder / request.path.partition("?")[0].lstrip("/")
        if not path.is_file():
            return Response(404, body=b"no such file")
        data = path.read_bytes()
        return ranged(request, data) if ranges else Response(200, body=data)

    return handle


def once(handler: Handler, text: str, change: Callable[[Response], Response], times: int = 1) -> Handler:
    """A handler whose first answers for paths with this text are changed."""
    left = [times]
    lock = threading.Lock()

    def handle(request: Request) -> Response:
        response = handler(request)
        with lock:
            if text in request.path and request.method == "GET" and left[0] > 0:
                left[0] -= 1
                return change(response)
        return response

    return handle
