"""The service over HTTP: what it refuses, how it ends, and what it says of itself meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving.app import BadRequest, checked
from serving.load_test import Server
from serving.shape import SMALL

DOUBLE = Path(__file__).parents[1] / "helpers" / "serving" / "double.py"
GOOD = {"prompt": [1, 2, 3], "tokens": 4}


@contextmanager
def started(cache: Path, *options: str) -> Iterator[Server]:
    """A process of the service."""
    server = Server("one", [sys.executable, str(DOUBLE), *options], {**os.environ, "PRECAST_CACHE_PATH": str(cache)})
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "two keys"),
        ({"prompt": [1]}, "two keys"),
        ({**GOOD, "temperature": 1}, "two keys"),
        ({**GOOD, "prompt": []}, "at least one"),
        ({**GOOD, "prompt": "abc"}, "not a list"),
        ({**GOOD, "prompt": [1, 97]}, r"prompt\[1\] is no token: send numbers from 0 to 96"),
        ({**GOOD, "prompt": [-1]}, "no token"),
        ({**GOOD, "prompt": [True]}, "no token"),
        ({**GOOD, "prompt": [1.0]}, "no token"),
        ({**GOOD, "tokens": 0}, "positive"),
        ({**GOOD, "tokens": "4"}, "positive"),
        ({**GOOD, "tokens": True}, "positive"),
        ({**GOOD, "tokens": 30}, "33 tokens: ask for 32 at most"),
        ({**GOOD, "tokens": 10**30}, "at most"),
    ],
)
def test_a_request_that_asks_for_nonsense_is_told_what_to_send(body: Any, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        checked(body, SMALL)


def test_over_http(caches: tuple[Path, Path]) -> None:
    with started(caches[0], "--drain", "0") as server:
        status, text = server.ask("POST", "/generate", GOOD)
        assert status == 200 and len(json.loads(text)["tokens"]) == 4
        assert server.ask("POST", "/generate", {**GOOD, "tokens": 0})[0] == 400
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for body in (b"", b"not JSON", b"[" * 100_000, b"\xff" * 10, b"x" * (1 << 20), b'{"prompt": NaN, "tokens": 1}'):
            connection.request("POST", "/generate", body)
            answer = connection.getresponse()
            assert answer.status == 400, body[:20]
            assert json.loads(answer.read())["error"]
        connection.request("POST", "/generate", b"x" * ((1 << 20) + 1))
        answer = connection.getresponse()
        assert answer.status == 400 and "longer than" in json.loads(answer.read())["error"]
        connection.close()
        assert server.ask("GET", "/generate")[0] == 405 and server.ask("GET", "/nothing")[0] == 404
        assert server.ask("POST", "/generate", GOOD) == (200, text)  # it goes on, and answers the same
        assert server.stop() == 0


@pytest.mark.slow
def test_at_sigterm_it_says_so_and_answers_what_it_has_taken(caches: tuple[Path, Path]) -> None:
    """Requests of before are answered; a connection that was idle is served once more, and told to close."""
    with started(caches[0], "--drain", "1.5") as server:
        idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        idle.request("GET", "/healthz")
        assert idle.getresponse().read() == b'{"status":"ok"}'
        statuses: list[int] = []
        long = {"prompt": [1] * 8, "tokens": 24}
        threads = [
            threading.Thread(target=lambda: statuses.append(server.ask("POST", "/generate", long)[0]))
            for _ in range(3 * SMALL.seats)
        ]
        for thread in threads:
            thread.start()
        while b"service_running 8" not in server.ask("GET", "/metrics")[1]:
            time.sleep(0.001)
        server.process.send_signal(signal.SIGTERM)
        while server.healthy():
            time.sleep(0.001)
        idle.request("POST", "/generate", json.dumps(GOOD))
        answer = idle.getresponse()
        assert answer.status == 200 and answer.headers["Connection"] == "close" and answer.read()
        idle.close()
        assert server.ask("GET", "/healthz")[1] == b'{"status":"draining"}'
        for thread in threads:
            thread.join()
        assert statuses == [200] * len(threads)
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_a_second_signal_ends_it_sooner(caches: tuple[Path, Path]) -> None:
    with started(caches[0], "--drain", "1000") as server:
        server.process.send_signal(signal.SIGTERM)
        while server.healthy():
            time.sleep(0.001)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_without_the_caches_it_does_not_listen(tmp_path: Path) -> None:
    server = Server("one", [sys.executable, str(DOUBLE)], {**os.environ, "PRECAST_CACHE_PATH": str(tmp_path)})
    with pytest.raises(SystemExit, match="did not start: exit status 1"):
        server.wait_until_ready()
