"""A real registry on this machine, and a proxy in front of it that can be told to misbehave."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.web.server import Handler, Request, Response

PROGRAM = shutil.which("docker-registry") or shutil.which("registry")
needs_registry = pytest.mark.skipif(
    PROGRAM is None, reason="no OCI registry is installed: install Debian's package docker-registry"
)
_PASSED_ON = ("range", "accept", "content-type", "authorization")


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry that keeps its files in a folder; its host and port."""
    if PROGRAM is None:
        pytest.skip("no OCI registry is installed: install Debian's package docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    with open(folder / "log", "wb") as log:
        running = subprocess.Popen([PROGRAM, "serve", config], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert running.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def in_front_of(host: str) -> Handler:
    """Pass every request on, and say what was answered. Addresses in answers are those of this proxy."""

    def handle(request: Request) -> Response:
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            sent = {name: value for name, value in request.headers.items() if name in _PASSED_ON}
            connection.request(request.method, request.path, body=request.body or None, headers=sent)
            answer = connection.getresponse()
            body = answer.read()
            headers = {n: v for n, v in answer.headers.items() if n.lower() not in ("date", "connection")}
        finally:
            connection.close()
        if "Location" in headers:
            headers["Location"] = headers["Location"].replace(f"http://{host}", "")
        return Response(answer.status, headers, body)

    return handle


def with_tokens(handler: Handler, realm: str, token: str = "a-token") -> Handler:
    """Ask for a bearer token, which ``realm`` gives."""

    def handle(request: Request) -> Response:
        if request.headers.get("authorization") == f"Bearer {token}":
            return handler(request)
        challenge = f'Bearer realm="{realm}",service="registry",scope="repository:kernels/a:pull,push"'
        return Response(
            401, {"WWW-Authenticate": challenge}, b'{"errors":[{"code":"UNAUTHORIZED","message":"log in"}]}'
        )

    return handle
