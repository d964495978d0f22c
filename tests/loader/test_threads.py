"""Threads that run at the same time, as those of a free-threaded Python do: what the loader's locks are there for."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from precast.loader import session
from precast.loader.locks import ForkWaits, OnceTable
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from tests.helpers.caches import run_alone
from tests.helpers.echo import HOPPER

THREADS = 8


def together(work: object) -> list[BaseException]:
    """Run the same in many threads that begin together; what they raised."""
    start, raised = threading.Barrier(THREADS), list[BaseException]()

    def one(number: int) -> None:
        start.wait()
        try:
            work(number)  # type: ignore[operator]
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_one_kernel_is_looked_up_opened_and_called_by_all(path: Path) -> None:
    """One library is opened, one kernel is made, and each call has its own result."""
    for _ in range(20):
        made = session.Session(str(path), machines=Machines(HOPPER))
        kernels: list[object] = []

        def use(number: int, made: session.Session = made, kernels: list[object] = kernels) -> None:
            kernel = made.get(Request(op="scale", config={"dtype": "bf16"}))
            kernels.append(kernel)
            for value in range(number * 1000, number * 1000 + 200):
                assert kernel(value) == 2 * value

        assert together(use) == []
        assert len(set(map(id, kernels))) == 1
        assert made.stats.loads == 1 and made.stats.lookups == THREADS


def test_a_value_is_made_once() -> None:
    made = []
    for _ in range(200):
        table = OnceTable()

        def use(number: int, table: OnceTable = table) -> None:
            value = table.get("key", lambda: made.append(number) or object())  # type: ignore[func-returns-value]
            assert table.get("key", object) is value

        assert together(use) == []
    assert len(made) == 200


def test_a_fork_waits_for_what_must_not_be_left_half_done() -> None:
    waits, entered, done = ForkWaits(), threading.Event(), list[str]()

    def hold() -> None:
        with waits:
            entered.set()
            time.sleep(0.2)
            done.append("done")

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        with waits:  # it is free in the child, and what was begun before the fork has ended
            os._exit(0 if done == ["done"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    with waits:
        pass


@pytest.mark.skipif("t" not in sys.abiflags, reason="this Python has a global lock")
def test_loading_switches_no_lock_on(path: Path) -> None:
    """In a free-threaded Python a module that needs the global lock switches it on for all: none of ours does."""
    code = (
        "import sys\n"
        "from precast.loader import session\n"
        "from precast.loader.contract.format.target import Capability\n"
        "from precast.loader.machine.machine import Machines, replace\n"
        "session.use(session.Session(machines=Machines(replace(Machines().host, capability=Capability(9, 0)))))\n"
        "import precast.loader\n"
        "assert precast.loader.get('scale', {'dtype': 'bf16'})(5) == 10\n"
        "assert not getattr(sys, '_is_gil_enabled', bool)()\n"
    )
    run_alone(code, path)
