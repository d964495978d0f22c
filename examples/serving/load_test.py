"""Thousands of requests while a deployment happens: ``python -m serving.load_test --old CACHE --new CACHE -- COMMAND``.

COMMAND starts a service; ``--port N`` is added. First one process serves out of the old cache. Under load the link to
the cache is switched to the new one, the old folder is deleted, a second process starts, and the first one gets
SIGTERM with requests under way. Each answer is compared with the one that the same process gave to the same prompt
alone. No request is sent twice. Exit status 1: one was lost, or wrong, or a process did not end cleanly.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_POLL = 0.02  # seconds between two looks at /healthz
_UNDER_WAY = 5.0  # seconds that SIGTERM waits for a request
_CACHE = "precast_cache_info{"
_PATIENCE = 300.0  # seconds until a start or an end has failed
Body = dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """One request."""

    server: str
    status: int
    right: bool
    began: float
    ended: float


class Server:
    """One process of the service, and what it answers when it is asked alone."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.name, self.expected = name, list[Body]()
        self.began = time.monotonic()
        self.process = subprocess.Popen([*command, "--port", str(self.port)], env=dict(environment))
        self.seconds_to_listen = self.seconds_to_stop = float("nan")

    def wait_until_ready(self) -> None:
        """Until ``/healthz`` says so."""
        while self.process.poll() is None and time.monotonic() - self.began < _PATIENCE:
            if self.healthy():
                self.seconds_to_listen = time.monotonic() - self.began
                return
            time.sleep(_POLL)
        raise SystemExit(f"{self.name} did not start: exit status {self.process.poll()}")

    def healthy(self) -> bool:
        """Whether it takes requests."""
        try:
            return self.ask("GET", "/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def ask(self, method: str, path: str, body: Body | None = None) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            return exchange(connection, method, path, body)
        finally:
            connection.close()

    def learn(self, prompts: Sequence[Body]) -> None:
        """Ask each prompt alone."""
        for prompt in prompts:
            status, text = self.ask("POST", "/generate", prompt)
            if status != 200:
                raise SystemExit(f"{self.name} answered {status} to a prompt alone: {text!r}")
            self.expected.append(json.loads(text))

    def metrics(self) -> dict[str, float]:
        """Each line of its metrics, by name and labels."""
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def indexes(self) -> list[str]:
        """The digests of the caches that it uses, as its metrics say."""
        return sorted(name.split('index="')[1].split('"')[0] for name in self.metrics() if name.startswith(_CACHE))

    def loads(self) -> float:
        """How many kernels it has loaded, or has looked for in vain."""
        found = self.metrics()
        return found.get("precast_loads_total", 0.0) + found.get("precast_misses_total", 0.0)

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(_PATIENCE)
        self.seconds_to_stop = time.monotonic() - began
        return status


def exchange(connection: http.client.HTTPConnection, method: str, path: str, body: Body | None) -> tuple[int, bytes]:
    """Send one request, and read its answer."""
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.read()


@dataclass
class Traffic:
    """Clients, each with one request at a time, sent to the servers in rotation."""

    prompts: Sequence[Body]
    rotation: list[Server]
    answered: list[Answered] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    under_way: dict[int, Server] = field(default_factory=dict)  # by the client's thread
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sent(self) -> int:
        """Requests that have come to an end, one way or the other."""
        return len(self.answered) + len(self.lost)

    def client(self) -> None:
        """Send one request after another until it is over."""
        connections: dict[int, http.client.HTTPConnection] = {}
        while not self.over.is_set():
            number = next(self._numbers)
            servers = self.rotation  # a list that is replaced, and never changed
            server, place = servers[number % len(servers)], number % len(self.prompts)
            began = time.monotonic()
            connection = connections.setdefault(
                server.port, http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            )
            self.under_way[threading.get_ident()] = server
            try:
                status, text = exchange(connection, "POST", "/generate", self.prompts[place])
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(f"{server.name}: {type(error).__name__}: {error}")
                connection.close()
                continue
            finally:
                del self.under_way[threading.get_ident()]
            right = status == 200 and json.loads(text) == server.expected[place]
            self.answered.append(Answered(server.name, status, right, began, time.monotonic()))

    def watch(self) -> None:
        """Take servers out of rotation that say that they are not well, as whoever balances the load does."""
        while not self.over.wait(_POLL):
            with self._changing:
                self.rotation = [server for server in self.rotation if server.healthy()] or self.rotation

    def add(self, server: Server) -> None:
        """Put a server into rotation."""
        with self._changing:
            self.rotation = [*self.rotation, server]

    def wait_for(self, number: int, more: int = 0) -> None:
        """Until that many requests were sent, and some more than now."""
        number = max(number, self.sent + more)
        while self.sent < number:
            time.sleep(0.001)

    def wait_until_under_way(self, server: Server) -> None:
        """Until a server has a request to answer; a few seconds at most."""
        end = time.monotonic() + _UNDER_WAY
        while server not in tuple(self.under_way.values()) and time.monotonic() < end:
            time.sleep(0.0001)


@contextmanager
def running(traffic: Traffic, clients: int) -> Iterator[None]:
    """Clients in threads; at the end all of them are done."""
    threads = [threading.Thread(target=work) for work in (traffic.watch, *(traffic.client,) * clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        traffic.over.set()
        for thread in threads:
            thread.join()


def prompts_of(count: int, vocabulary: int, longest: int, seed: int = 0) -> list[Body]:
    """Prompts of many lengths, each with a number of wanted tokens."""
    dice = random.Random(seed)

    def one(number: int) -> Body:
        length = dice.choice([1, 2, dice.randint(3, longest // 8), dice.randint(longest // 8, longest // 2)])
        return {"prompt": [dice.randrange(vocabulary) for _ in range(length)], "tokens": dice.randint(1, longest // 8)}

    return [one(number) for number in range(count)]


class Releases:
    """A folder as deployments have it: one folder for each version, and a link that is switched in one step."""

    def __init__(self, folder: Path, old: Path, new: Path) -> None:
        self.link, self._old, self._new = folder / "current", folder / "old", folder / "new"
        shutil.copytree(old, self._old)
        shutil.copytree(new, self._new)
        self._point_to(self._old)

    def switch(self) -> None:
        """To the new version; the old one is deleted, while a process uses it."""
        self._point_to(self._new)
        shutil.rmtree(self._old)

    def _point_to(self, folder: Path) -> None:
        beside = self.link.with_name("next")
        beside.symlink_to(folder)
        os.replace(beside, self.link)


def deploy(command: Sequence[str], options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The whole deployment under load; what was seen."""
    releases = Releases(folder, options.old, options.new) if options.old else None
    environment = {**os.environ, "PRECAST_CACHE_PATH": str(releases.link)} if releases else dict(os.environ)
    prompts = prompts_of(options.prompts, options.vocabulary, options.longest)
    first = Server("first", command, environment)
    servers = [first]
    try:
        first.wait_until_ready()
        indexes, loads = {"first, before": first.indexes()}, {first: first.loads()}
        first.learn(prompts)
        traffic, some = Traffic(prompts, [first]), options.requests // 10
        with running(traffic, options.clients):
            traffic.wait_for(some)
            if releases:
                releases.switch()
            second = Server("second", command, environment)
            servers.append(second)
            second.wait_until_ready()
            loads[second] = second.loads()
            second.learn(prompts)
            indexes |= {"first, after": first.indexes(), "second": second.indexes()}
            during = traffic.sent
            traffic.add(second)
            traffic.wait_for(6 * some, more=some)
            loads[first] = first.loads() - loads[first]
            traffic.wait_until_under_way(first)
            signalled = time.monotonic()
            statuses = {"first": first.stop()}
            traffic.wait_for(options.requests, more=some)
        loads[second] = second.loads() - loads[second]
        statuses["second"] = second.stop()
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
    return {
        **summary(traffic, signalled),
        "clients": options.clients,
        "requests until the second was ready": during,
        "exit": statuses,
        "indexes": indexes,
        "kernels loaded while serving": {server.name: int(count) for server, count in loads.items()},
        "seconds to listen": {server.name: server.seconds_to_listen for server in servers},
        "seconds to stop": {server.name: server.seconds_to_stop for server in servers},
        "replaced": bool(releases),
    }


def summary(traffic: Traffic, signalled: float) -> dict[str, Any]:
    """Counts and times of all requests."""
    found = traffic.answered
    seconds = sorted(one.ended - one.began for one in found) or [float("nan")]
    span = max((one.ended for one in found), default=0.0) - min((one.began for one in found), default=0.0)
    good = [one for one in found if one.right]
    return {
        "requests": traffic.sent,
        "answered": len(found),
        "right": len(good),
        "lost": len(traffic.lost),
        "why lost": dict(Counter(traffic.lost).most_common(5)),
        "status": {str(status): count for status, count in Counter(one.status for one in found).items()},
        "by": dict(Counter(one.server for one in found)),
        "under way at SIGTERM": sum(one.server == "first" and one.began < signalled < one.ended for one in found),
        "sent to it after SIGTERM": sum(one.server == "first" and one.began >= signalled for one in found),
        "requests per second": len(found) / span if span else 0.0,
        "median ms": statistics.median(seconds) * 1e3,
        "99th percentile ms": seconds[int(len(seconds) * 0.99)] * 1e3,
        "longest ms": seconds[-1] * 1e3,
    }


def faults(seen: Mapping[str, Any]) -> list[str]:
    """What must not have happened."""
    found = []
    if seen["right"] != seen["requests"]:
        found.append(f"{seen['requests'] - seen['right']} of {seen['requests']} requests have no right answer")
    if any(seen["exit"].values()):
        found.append(f"exit statuses {seen['exit']}: a service that gets SIGTERM ends with 0")
    if not seen["under way at SIGTERM"]:
        found.append("nothing was under way at SIGTERM: send more requests, or from more clients")
    if any(seen["kernels loaded while serving"].values()):
        found.append(f"kernels were loaded while serving: {seen['kernels loaded while serving']}; preload, and freeze")
    indexes = seen["indexes"]
    if seen["replaced"] and not (indexes["first, before"] == indexes["first, after"] != indexes["second"]):
        found.append(f"the caches in use are not the old one, and then the new one: {indexes}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was seen as JSON; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m serving.load_test", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--old", type=Path, help="a cache, which the first process uses")
    parser.add_argument("--new", type=Path, help="another cache for the same service, with another index")
    parser.add_argument("--requests", type=int, default=4000, help="at least")
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--prompts", type=int, default=48, help="how many different ones")
    parser.add_argument("--vocabulary", type=int, default=32768)
    parser.add_argument("--longest", type=int, default=512, help="tokens of prompt and answer")
    parser.add_argument("--json", type=Path, help="write what was seen there, too")
    parser.add_argument("command", nargs="+", help="starts the service; --port is added")
    options = parser.parse_args(arguments)
    if (options.old is None) != (options.new is None):
        parser.error("--old and --new go together: give two caches, or none")
    with tempfile.TemporaryDirectory() as folder:
        seen = deploy(options.command, options, Path(folder))
    wrong = faults(seen)
    text = json.dumps({**seen, "faults": wrong}, sort_keys=True, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
