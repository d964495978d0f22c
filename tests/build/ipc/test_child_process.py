"""Child processes, with the describer as the child: its modules are small, and it starts without the compiler."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from precast.build.inputs.closure import Closures, reads_of
from precast.build.ipc import child_process
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message, ready
from precast.loader.contract.format.target import Target

SM90A = Target.parse("sm_90a")
MODULES = {
    "plain": "def f(n: int): ...",
    "waits": "import time; print('waiting', flush=True); time.sleep(600)",
    "starts": """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("started", child.pid, flush=True)
def f(n: int): ...
""",
    "awaits": "import subprocess; subprocess.run(['sh', '-c', 'kill -STOP $$'])",
    "hides": "import os, time; os.closerange(3, 64); time.sleep(600)",
    "closes": "import os; os.closerange(3, 1 << 16)\ndef f(n: int): ...",
    "floods": "import os; os.write(1, b'.' * (4 << 20)); print('the end', flush=True)\ndef f(n: int): ...",
    "grows": "kept = []\nwhile True: kept.append(b'x' * (1 << 20))",
}
Start = Callable[..., ChildProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    made: list[ChildProcess] = []

    def go(*, memory: int = 0, target: str = "sm_90a") -> ChildProcess:
        reads = [reads_of(f"{name}:f", ["program:sh"]) for name in MODULES]
        closure = Closures.here([tmp_path]).of(reads)
        settings = {"target": target, "search": [str(tmp_path)], "closure": closure.to_json()}
        environment = child_environment(os.environ, target=SM90A)
        made.append(
            ChildProcess(
                "precast.build.child.describer_main",
                name="child",
                settings=settings,
                environment=environment,
                memory=memory,
            )
        )
        return made[-1]

    yield go
    for child in made:
        child.kill()


def request(module: str) -> Message:
    return Message({"describe": [{"op": "acme.x", "source": f"{module}:f"}]})


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_requests_may_be_sent_ahead_and_are_answered_in_order(start: Start) -> None:
    child = start()
    for module in ("plain", "floods", "nowhere"):
        child.send(request(module))
    answers = [child.receive(60).header["rows"][0] for _ in range(3)]
    assert [answer.get("source") for answer in answers] == ["plain:f", "floods:f", None]
    assert "there is no module 'nowhere'" in answers[2]["error"]


def test_what_is_printed_belongs_to_its_request_and_is_bounded(start: Start) -> None:
    child = start()
    child.send(request("floods"))
    child.receive(60)
    assert child.output.endswith("the end\n") and len(child.output) < 100_000
    child.send(request("plain"))
    child.receive(60)
    assert child.output == ""


def test_a_killed_process_is_reported_in_words(start: Start) -> None:
    child = start()
    child.ready()
    child.send(request("waits"))
    time.sleep(1)
    os.kill(child.pid, 9)
    with pytest.raises(ChildLost, match=r"(?m)^the child was ended by SIGKILL; it may have run out of memory$") as lost:
        child.receive(60)
    assert lost.value.output == "waiting\n"
    with pytest.raises(ChildLost, match="the child has ended"):
        child.send(request("plain"))
        child.receive(60)


def test_a_process_without_an_answer_in_time_is_ended(start: Start) -> None:
    child = start()
    child.send(request("waits"))
    with pytest.raises(ChildLost, match=r"(?m)^no answer in 1 s; the child was ended$"):
        child.receive(1)
    assert not Path(f"/proc/{child.pid}").exists()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is ended when it was stopped for two seconds."""
    monkeypatch.setattr(child_process, "_STOPPED_SECONDS", 2.0)


@pytest.mark.slow
def test_a_process_that_closes_its_pipe_and_stays_is_ended(start: Start) -> None:
    child = start()
    child.ready()
    child.send(request("hides"))
    with pytest.raises(ChildLost, match="no answer in 2 s; the child was ended"):
        child.receive(2)
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_process_that_closes_its_descriptors_goes_on(start: Start) -> None:
    child = start()
    for module in ("closes", "plain"):
        child.send(request(module))
        assert child.receive(60).header["rows"][0].get("source") == f"{module}:f"


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_a_process_that_is_stopped_is_ended_within_seconds(start: Start) -> None:
    child = start()
    child.ready()
    os.kill(child.pid, signal.SIGSTOP)
    child.send(request("plain"))
    begun = time.monotonic()
    with pytest.raises(ChildLost, match="it, or a process of it, was stopped by a signal for 2 s; the child was ended"):
        child.receive(600)
    assert time.monotonic() - begun < 60


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_a_process_that_waits_for_a_stopped_one_is_ended_within_seconds(start: Start) -> None:
    """As ``ctypes.util.find_library`` waits for ldconfig."""
    child = start()
    child.send(request("awaits"))
    begun = time.monotonic()
    with pytest.raises(ChildLost, match="it, or a process of it, was stopped by a signal for 2 s; the child was ended"):
        child.receive(600)
    assert time.monotonic() - begun < 60


def test_a_process_that_is_stopped_for_a_moment_goes_on(start: Start) -> None:
    child = start()
    child.ready()
    os.kill(child.pid, signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (child.pid, signal.SIGCONT)).start()
    child.send(request("plain"))
    assert child.receive(60).header["rows"]


def test_a_pipe_may_have_any_number() -> None:
    """``select`` takes none above 1023."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], min(limit[1], 4096)), limit[1]))
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1500)
    try:
        assert high >= 1500 and ready(high, seconds=0) == []
        os.write(writing, b"x")
        assert ready(high, seconds=5) == [high]
    finally:
        for descriptor in (high, reading, writing):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_a_process_that_grows_too_large_gets_an_error_or_is_ended(start: Start) -> None:
    child = start(memory=400 << 20)
    child.send(request("grows"))
    try:
        assert "MemoryError" in child.receive(60).header["rows"][0]["error"]
    except ChildLost as lost:
        assert "MiB of memory" in str(lost)


def test_what_a_module_started_ends_with_the_process(start: Start) -> None:
    child = start()
    child.send(request("starts"))
    child.receive(60)
    pid = int(child.output.split()[1])
    assert Path(f"/proc/{pid}").exists()
    child.kill()
    assert_ended(pid)


def test_a_process_that_cannot_start_says_why(start: Start) -> None:
    child = start(target="sm_999")
    with pytest.raises(ChildLost, match="there is no profile of a GPU for sm_999"):
        child.receive(60)


def test_no_descriptor_is_left_open(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_descriptors()
    child = start()
    child.send(request("plain"))
    child.receive(60)
    child.close()
    assert open_descriptors() == before

    def fail(*arguments: object, **options: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(OSError, match="no more processes"):
        start()
    assert open_descriptors() == before


PARENT = """
import os, time
from pathlib import Path
from precast.build.inputs.closure import Closures, reads_of
from precast.build.ipc.child_process import ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
closure = Closures.here([Path.cwd()]).of([reads_of("waits:f")])
settings = {"target": "sm_90a", "search": [os.getcwd()], "closure": closure.to_json()}
environment = child_environment(os.environ)
child = ChildProcess("precast.build.child.describer_main", name="child", settings=settings, environment=environment)
child.ready()
child.send(Message({"describe": [{"op": "acme.x", "source": "waits:f"}]}))
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_process_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(MODULES["waits"])
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(1)
        parent.kill()
    assert_ended(pid)


def assert_ended(pid: int) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)
