"""Kernels that end, hang, bloat or flood their worker: each costs its own variant and no other."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.compile.outcome import request_for
from precast.build.compile.worker import Worker
from precast.build.gpu.profile import Profiles
from precast.build.ipc.message import Message
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import command, environment, events, manifest, module, precast
from tests.helpers.variants import variant

pytestmark = pytest.mark.usefixtures("without_torch")

FAULTS = '''
import ctypes, os, sys, time

_COMPILED = {}


def good(n: int):
    return compile_add(n)


def crash(n: int):
    print("about to crash", flush=True)
    ctypes.string_at(0)


def leave(n: int):
    print("leaving without a word more", flush=True)
    os._exit(3)


def eat(n: int):
    kept = []
    while True:
        kept.append(b"x" * (16 << 20))


def swallow(n: int):
    return b"x" * (1 << 40)


def chatty(n: int):
    for _ in range(200):
        os.write(1, b"." * (1 << 16))
    print("the end of megabytes")
    if n == 1:
        raise ValueError("after megabytes")
    return compile_add(n)


def own_cache(n: int):
    """Answers out of a cache that precast knows nothing of: the second call compiles nothing."""
    if "x" not in _COMPILED:
        _COMPILED["x"] = compile_add(n)
    return _COMPILED["x"]
'''

SAID = {
    "crash": ("the worker was ended by SIGSEGV", "about to crash"),
    "leave": ("the worker ended with exit status 3", "leaving without a word more"),
    "eat": ("MiB of memory|^MemoryError in eat, ", ""),
    "swallow": ("^MemoryError in swallow, ", ""),
    "chatty": ("ValueError: after megabytes", "the end of megabytes"),
}


@pytest.mark.slow
def test_each_fault_costs_its_own_variant(tmp_path: Path) -> None:
    module(tmp_path, "faults", FAULTS)
    kernels = {f"faults:{name}": [1] for name in SAID}
    kernels |= {"faults:good": [1, 2], "faults:chatty": [1, 2], "faults:own_cache": [1, 2]}
    mine = manifest(tmp_path, kernels)
    # Every failure, as 'eat' may have the reason of 'swallow': its own limit may come before its parent looks.
    bounds = ("-j", 2, "--memory", 1500)
    done = precast(tmp_path / "store", "build", mine, "-o", tmp_path / "cache", "--json", "--verbose", *bounds)
    assert done.returncode == 1, done.stderr
    report = events(done)[-1]
    failed = {f["op"].removeprefix("user."): f for f in report["failed"]}
    assert sorted(failed) == sorted(SAID)
    for name, (reason, words) in SAID.items():
        assert re.search(reason, failed[name]["reason"]), failed[name]["reason"]
        assert words in failed[name]["details"], failed[name]["details"]
        assert len(failed[name]["details"]) < 60_000
        assert f"user.{name}(n=1) for sm_90a: " in done.stderr
    cache = Cache(tmp_path / "cache")
    held = {op: len(cache.op(op).rows) for op in cache.index.ops}
    assert held == {"user.good": 2, "user.chatty": 1, "user.own_cache": 2}


HANG = """
import time


def hang(n: int):
    print("waiting for something that never comes", flush=True)
    time.sleep(1000)


def good(n: int):
    return compile_add(n)
"""


@pytest.mark.slow
def test_a_kernel_that_hangs_costs_its_own_variant(tmp_path: Path) -> None:
    """Its worker has a limit that the others do not: a busy machine may need any time for these."""
    module(tmp_path, "hanging", HANG)
    target = Target.parse("sm_90a")
    worker = Worker(target, {}, [tmp_path], Profiles().of(target))
    try:
        for name, seconds in (("good", 300.0), ("hang", 1.0), ("good", 300.0)):
            worker.send(Message(request_for(replace(variant(1), source=f"hanging:{name}"), seconds)))
            reply = worker.receive(300)
            assert len(reply.parts) == (name == "good"), reply.header
            if name == "hang":
                assert reply.header["error"].startswith("no answer in 1 s; the worker was ended")
                assert "waiting for something that never comes" in worker.output
    finally:
        worker.kill()


@pytest.mark.slow
def test_fail_fast_ends_at_the_first_and_writes_no_cache(tmp_path: Path) -> None:
    module(
        tmp_path,
        "faults",
        "def bad(n: int):\n    raise ValueError('no')\n\ndef good(n: int):\n    return compile_add(n)\n",
    )
    mine = manifest(tmp_path, {"faults:bad": [1], "faults:good": list(range(12))})
    done = precast(tmp_path / "store", "build", mine, "-o", tmp_path / "cache", "--fail-fast", "-j", 1, "--json")
    assert done.returncode == 1
    report = events(done)[-1]
    assert [f["reason"] for f in report["failed"]] == ["ValueError: no"]
    assert report["built"] < 12
    assert not (tmp_path / "cache").exists()


def children(pid: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.add(int(path.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_ends_quickly_and_its_workers_with_it(tmp_path: Path, number: signal.Signals) -> None:
    module(tmp_path, "faults", "import time\n\ndef slow(n: int):\n    time.sleep(600)\n")
    mine = manifest(tmp_path, {"faults:slow": [1, 2]})
    arguments = command("build", mine, "-o", tmp_path / "cache", "-j", 2, "--json")
    build = subprocess.Popen(
        arguments, env=environment(tmp_path / "store"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's background ignores it
    )  # fmt: skip
    assert build.stdout is not None and build.stderr is not None
    with build, build.stdout, build.stderr, contextlib.ExitStack() as ended:
        ended.callback(build.kill)  # or a failure would wait for it
        assert '"event": "started"' in build.stdout.readline()
        workers = children(build.pid)
        assert workers
        os.kill(build.pid, number)
        build.wait(timeout=120)
        for _ in range(100):
            if not any(Path(f"/proc/{w}").exists() and _state(w) not in "ZX" for w in workers):
                break
            time.sleep(0.1)
        else:
            pytest.fail("a worker lives on")
        if number != signal.SIGKILL:
            assert build.returncode == 130
            assert "interrupted: the store keeps what was built" in build.stderr.read()
    assert not (tmp_path / "cache").exists()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
