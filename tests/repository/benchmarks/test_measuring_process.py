"""benchmarks/measuring_process.py: what a process replies, and what becomes of one that faults, hangs or gives up."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.source_tree import ROOT


def module() -> ModuleType:
    return importlib.import_module("measuring_process")


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """These files import each other, as where they are run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def serve(requests: Connection) -> None:
    """Doubles numbers; does what a word says."""
    requests.send(None)
    while True:
        request = requests.recv()
        if request == "fault":
            os._exit(7)
        if request == "hang":
            time.sleep(60)
        requests.send(module().Failure("it is spoilt", own=True) if request == "fail" else 2 * request)


def unready(requests: Connection) -> None:
    requests.send(module().Failure("there is no GPU"))


@pytest.fixture
def processes() -> Iterator[Any]:
    with module().Processes(serve, seconds=3.0) as found:
        yield found


def test_a_process_replies_to_one_request_after_the_other(processes: Any) -> None:
    processes.start(("one",))
    first = processes._by_name["one"]
    assert [processes.reply("one", i) for i in (1, 2, 3)] == [2, 4, 6]
    assert processes._by_name["one"] is first


def test_a_process_that_faults_is_lost_alone_and_another_one_takes_its_name(processes: Any) -> None:
    assert processes.reply("other", 1) == 2
    beside = processes._by_name["other"]
    with pytest.raises(module().Lost, match="ended with 7") as caught:
        processes.reply("one", "fault")
    assert not caught.value.hung and not caught.value.own
    assert processes.reply("one", 4) == 8 and processes._by_name["other"] is beside


@pytest.mark.slow
def test_a_process_that_hangs_is_ended(processes: Any) -> None:
    processes.start(("one",))
    process = processes._by_name["one"]._process
    with pytest.raises(module().Lost, match="no result in 3 s") as caught:
        processes.reply("one", "hang")
    assert caught.value.hung and process.exitcode is not None


def test_a_failure_has_its_reason_and_ends_the_process(processes: Any) -> None:
    with pytest.raises(module().Lost, match="it is spoilt") as caught:
        processes.reply("one", "fail")
    assert caught.value.own and "one" not in processes._by_name


def test_one_that_is_never_ready_gives_the_reason_with_its_first_request() -> None:
    with module().Processes(unready, seconds=3.0) as processes:
        processes.start(("one",))
        with pytest.raises(module().Lost, match="there is no GPU"):
            processes.reply("one", 1)
