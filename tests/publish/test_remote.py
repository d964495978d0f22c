"""A store that machines share, on a real S3 protocol server and in a folder; and what it may never do to a build."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from precast.build.gpu.profile import profile_of
from precast.build.inputs.input_answers import answers_here
from precast.build.store.key import record_key
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record
from precast.build.store.store import Store, decode_record
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError
from precast.publish import remote as remotes
from precast.publish.errors import RemoteError
from precast.publish.remote import Patience, Remote
from tests.helpers.builds import new_store, tree
from tests.helpers.builds import write_package as write
from tests.helpers.forks.forked_process import run

pytestmark = pytest.mark.usefixtures("without_torch")

BUCKET = "builds"
H200 = profile_of(Target.parse("sm_90a"))
KEYS = [f"{n:02x}" * 32 for n in range(40)]


@dataclass
class Server:
    """moto's S3 server, a process of its own, which a test may stop."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
        }

    def files(self) -> Any:
        import s3fs

        return s3fs.S3FileSystem(
            endpoint_url=self.env["AWS_ENDPOINT_URL"], key="test", secret="test", skip_instance_cache=True,
            use_listings_cache=False,
        )  # fmt: skip


def _started(log: Path) -> Server:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("wb") as file:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=file, stderr=file)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
    made = Server(process, port)
    made.files().mkdir(BUCKET)
    return made


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for one in made:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def server(servers: list[Server], tmp_path: Path) -> Server:
    """A server: that of the test before, unless it was stopped."""
    if not servers or servers[-1].process.poll() is not None:
        servers.append(_started(tmp_path / "moto.log"))
    return servers[-1]


def build(
    manifest: Path, cache: Path, store: Path, url: str, env: dict[str, str], *more: object
) -> subprocess.CompletedProcess[str]:
    words = ["build", manifest, "-o", cache, "--store", new_store(store), "-j", 1, "--remote-cache", url, *more]
    return run(words, {**os.environ, **env})


@pytest.mark.slow
def test_what_one_machine_built_no_other_compiles(server: Server, tmp_path: Path) -> None:
    """Cold, then from a clean machine, then with one object damaged."""
    url, manifest = f"s3://{BUCKET}/precast", write(tmp_path, "1, 2")
    cold = build(manifest, tmp_path / "c1", tmp_path / "s1", url, server.env)
    assert (cold.returncode, cold.stderr.count("warning")) == (0, 0), cold.stderr
    assert "2 variants built, 0 reused" in cold.stdout
    there = server.files().find(url)
    assert len([p for p in there if p.endswith(".record")]) == 2

    second = build(manifest, tmp_path / "c2", tmp_path / "s2", url, server.env)
    assert "0 variants built, 2 reused" in second.stdout and "warning" not in second.stderr
    assert tree(tmp_path / "c2") == tree(tmp_path / "c1")

    good = {path: server.files().cat_file(path) for path in there}
    damaged = next(p for p in there if p.endswith(".record"))
    server.files().pipe_file(damaged, good[damaged][:-9] + b"malicious")
    third = build(manifest, tmp_path / "c3", tmp_path / "s3", url, server.env)
    assert f"warning: s3://{damaged} is refused:" in third.stderr
    assert "1 variant built, 1 reused" in third.stdout
    assert tree(tmp_path / "c3") == tree(tmp_path / "c1")
    sent = server.files().cat_file(damaged)
    assert sent != good[damaged][:-9] + b"malicious", "the good one has replaced the damaged one"
    decode_record(sent, Path(damaged).stem)


@pytest.mark.slow
def test_a_machine_that_built_before_fills_the_remote(server: Server, tmp_path: Path) -> None:
    """Whether it has still something to compile, or nothing to do at all; and nothing to do costs no more without."""
    url, manifest = f"s3://{BUCKET}/late", write(tmp_path, "1, 2")
    assert build(manifest, tmp_path / "c1", tmp_path / "s1", "", server.env).returncode == 0
    assert not server.files().exists(url)
    idle = build(manifest, tmp_path / "c1", tmp_path / "s1", url, server.env)
    assert "0 variants built, 2 reused" in idle.stdout and "warning" not in idle.stderr, idle.stderr
    sent = {path: server.files().modified(path) for path in server.files().find(url)}
    assert len([path for path in sent if path.endswith(".record")]) == 2
    other = build(manifest, tmp_path / "c2", tmp_path / "s2", url, server.env)
    assert "0 variants built, 2 reused" in other.stdout and "warning" not in other.stderr, other.stderr
    assert tree(tmp_path / "c2") == tree(tmp_path / "c1")
    assert {path: server.files().modified(path) for path in server.files().find(url)} == sent, "nothing is sent twice"

    server.process.kill()
    server.process.wait()
    alone = build(manifest, tmp_path / "c1", tmp_path / "s1", url, server.env)
    assert "0 variants built, 2 reused" in alone.stdout and alone.returncode == 0
    (warning,) = re.findall("warning: .*", alone.stderr)
    assert "is disabled for this build" in warning


@pytest.mark.slow
def test_a_server_that_stops_in_the_middle_costs_a_warning(server: Server, tmp_path: Path) -> None:
    manifest = write(tmp_path, ", ".join(map(str, range(10, 16))))  # the last is built long after the first is told
    words = ["build", manifest, "-o", tmp_path / "c", "--store", new_store(tmp_path / "s"), "-j", 1]
    command = [sys.executable, "-m", "precast.cli.main", *map(str, words), "--remote-cache", f"s3://{BUCKET}/x"]
    running = subprocess.Popen(
        command, env={**os.environ, **server.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    first = next(line for line in running.stderr if line.startswith("["))  # after the stages
    assert first.startswith("[1/6]"), first
    server.process.kill()
    server.process.wait()
    said, told = running.communicate(timeout=120)
    assert running.returncode == 0 and "6 variants built" in said
    (warning,) = re.findall("warning: .*", told)
    assert f"the remote cache s3://{BUCKET}/x is disabled for this build" in warning
    assert "Traceback" not in told


def record(key: str) -> Record:
    return Record(key=key, products=(), seconds=1.0)


@pytest.fixture
def warnings() -> list[str]:
    return []


def local(path: Path) -> Lookup:
    return Lookup(Store(path), answers_here([]))


def shared(tmp_path: Path, machine: str, warnings: list[str], **more: Any) -> Lookup:
    remote = Remote(f"file://{tmp_path}/remote", warnings.append, **more)
    return Lookup(Store(tmp_path / machine, warnings.append, remote), answers_here([]))


def test_a_folder_as_remote(tmp_path: Path, warnings: list[str]) -> None:
    first = shared(tmp_path, "one", warnings)
    for key in KEYS:
        assert first.find(key, H200) is None
        first.store.put(key, record(key))
    first.store.finish()
    second = shared(tmp_path, "two", warnings)
    second.prefetch([(key, H200) for key in KEYS])
    here = local(tmp_path / "two")
    assert [here.find(key, H200) for key in KEYS] == [record(key) for key in KEYS]
    assert not warnings
    assert not [p for p in (tmp_path / "remote").rglob("*") if "writing" in p.name]


def test_more_files_are_sent_than_may_wait_at_once(
    tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "_WAITING", 2)
    store = shared(tmp_path, "one", warnings, patience=Patience(file=10.0))
    for key in KEYS:
        store.store.put(key, record(key))
    store.store.finish()
    assert not warnings
    assert len(list((tmp_path / "remote").glob("??/*.record"))) == len(KEYS)


def test_read_only_writes_nothing(tmp_path: Path, warnings: list[str]) -> None:
    store = shared(tmp_path, "one", warnings, read_only=True)
    store.store.put(KEYS[0], record(KEYS[0]))
    store.store.finish()
    assert store.find(KEYS[0], H200) == record(KEYS[0])
    asked = counted(store)
    store.share(WANTED)
    assert asked.calls == []
    assert not (tmp_path / "remote").exists() and not warnings


class Counting:
    """The remote's files, and how often they were listed, read and written."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("find", "cat_file", "pipe_file"):
            self.calls.append(name)
        return getattr(self._files, name)


def counted(lookup: Lookup) -> Counting:
    remote = lookup.store.remote
    assert isinstance(remote, Remote)
    files = remote._files = Counting(remote._files)
    return files


WANTED = [(key, H200) for key in KEYS]


def test_what_was_here_before_is_sent_by_one_listing(tmp_path: Path, warnings: list[str]) -> None:
    here = local(tmp_path / "one")
    for key in KEYS[1:]:
        here.store.put(key, record(key))
    sms = {"multiprocessor_count": 132}
    here.store.put(KEYS[0], Record(key=record_key(KEYS[0], sms), products=(), seconds=1.0, assumed=sms))

    first = shared(tmp_path, "one", warnings)
    asked = counted(first)
    first.share(WANTED)
    first.store.finish()
    assert asked.calls == ["find"]
    there = tmp_path / "remote"
    assert len(list(there.glob("??/*.record"))) == len(KEYS) and len(list(there.glob("??/*.asked"))) == 1
    second = shared(tmp_path, "two", warnings)
    assert [second.find(*one) for one in WANTED] == [here.find(*one) for one in WANTED]
    asked = counted(second)
    second.share(WANTED)
    assert asked.calls == [], "what has come from there need not be looked for"

    times = {path: path.stat().st_mtime_ns for path in there.glob("??/*")}
    again = shared(tmp_path, "one", warnings)
    asked = counted(again)
    again.share(WANTED)
    again.store.finish()
    assert asked.calls == ["find"]
    assert {path: path.stat().st_mtime_ns for path in there.glob("??/*")} == times
    assert not warnings


def test_what_is_damaged_here_is_not_sent(tmp_path: Path, warnings: list[str]) -> None:
    here = local(tmp_path / "one")
    for key in KEYS[:2]:
        here.store.put(key, record(key))
    here.store.record_file(KEYS[0]).write_bytes(b"half of it")
    here.store.record_file(KEYS[1]).with_suffix(".asked").write_bytes(b"{")
    store = shared(tmp_path, "one", warnings)
    store.share(WANTED)
    store.store.finish()
    assert not (tmp_path / "remote").exists()
    (warning,) = warnings
    assert f"{KEYS[1]}.asked is not used" in warning


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
        lambda data: b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + (1 << 40).to_bytes(8, "little") + data[9:],
        lambda data: Path(__file__).read_bytes(),
    ],
    ids=["empty", "cut", "longer", "a bit", "says it is a terabyte", "something else"],
)
def test_remote_bytes_are_checked(tmp_path: Path, warnings: list[str], damage: Any) -> None:
    key = KEYS[3]
    first = shared(tmp_path, "one", warnings)
    first.store.put(key, record(key))
    first.store.finish()
    file = tmp_path / "remote" / key[:2] / f"{key}.record"
    good = file.read_bytes()
    file.write_bytes(damage(good))
    second = shared(tmp_path, "two", warnings)
    assert second.find(key, H200) is None and second.find(key, H200) is None
    (warning,) = warnings
    assert f"{key}.record is refused" in warning
    assert not (tmp_path / "two").exists(), "what is refused never reaches the local store"
    second.store.put(key, record(key))
    second.store.finish()
    assert file.read_bytes() == good


def test_a_record_of_another_key_is_refused(tmp_path: Path, warnings: list[str]) -> None:
    first = shared(tmp_path, "one", warnings)
    first.store.put(KEYS[1], record(KEYS[1]))
    first.store.finish()
    there = tmp_path / "remote"
    (there / KEYS[2][:2]).mkdir()
    (there / KEYS[1][:2] / f"{KEYS[1]}.record").rename(there / KEYS[2][:2] / f"{KEYS[2]}.record")
    assert shared(tmp_path, "two", warnings).find(KEYS[2], H200) is None
    assert "the record has another key" in warnings[0]


def test_what_is_too_large_is_not_taken(tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "LIMIT", 1000)
    path = tmp_path / "remote" / KEYS[0][:2]
    path.mkdir(parents=True)
    (path / f"{KEYS[0]}.record").write_bytes(bytes(5000))
    assert shared(tmp_path, "one", warnings).find(KEYS[0], H200) is None
    assert "more than 1000 bytes" in warnings[0]


class Hanging:
    """A file system whose server takes what it is sent and never answers."""

    protocol = "hanging"

    def __init__(self) -> None:
        self.asked = 0

    def unstrip_protocol(self, path: str) -> str:
        return f"hanging://{path}"

    def cat_file(self, *words: object, **more: object) -> bytes:
        self.asked += 1
        threading.Event().wait()
        raise AssertionError

    def pipe_file(self, *words: object) -> None:
        self.cat_file()

    def find(self, *words: object) -> None:
        self.cat_file()


def test_a_server_that_never_answers(tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for use in ("fetch", "send", "names"):
        warnings.clear()
        hanging = Hanging()
        monkeypatch.setattr(remotes, "_open", lambda url, one=hanging: (one, "there"))
        remote = Remote("hanging://there", warnings.append, patience=Patience(file=0.2, end=0.3))
        if use == "fetch":
            assert [remote.fetch(key) for key in KEYS] == [None] * len(KEYS)
        elif use == "names":
            assert [remote.names(), remote.names()] == [None, None]
        else:
            for key in KEYS * 3:
                remote.send(key, b"data")
        remote.finish()
        assert hanging.asked < len(KEYS) / 2, "after the first that waited too long none waits"
        assert len(warnings) == 1 and "is disabled for this build" in warnings[0]


def test_two_files_that_fail_together_are_one_warning(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    class Failing(Hanging):
        def pipe_file(self, *words: object) -> None:
            both.wait(10)
            raise OSError("the server is gone")

    monkeypatch.setattr(remotes, "_open", lambda url: (Failing(), "there"))
    remote = Remote("hanging://there", warnings.append)
    for key in KEYS[:2]:
        remote.send(key, b"data")
    for future in remote._sent:
        future.result(10)
    assert len(warnings) == 1 and "the server is gone" in warnings[0]


def test_all_files_together_have_one_limit_at_the_end(tmp_path: Path) -> None:
    """A server that takes almost as long for each would hold the build for hours."""
    remote = Remote(f"file://{tmp_path}", pytest.fail, patience=Patience(file=1, end=5))
    waited: list[float] = []

    class Slow:
        def result(self, seconds: float) -> None:
            waited.append(seconds)
            time.sleep(0.05)

    remote._sent = [Slow(), Slow()]  # type: ignore[list-item]
    remote.finish()
    assert waited[1] <= waited[0] - 0.05


@pytest.mark.parametrize(
    ("url", "error"),
    [("", ConfigError), ("/a/path", ConfigError), ("s3://", ConfigError), ("nothing://x/y", RemoteError)],
)
def test_urls_that_are_none(url: str, error: type[Exception], warnings: list[str]) -> None:
    with pytest.raises(error):
        Remote(url, warnings.append)


def test_its_threads_end_with_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    remote = Remote(f"file://{tmp_path}", pytest.fail)
    remote.send("a.record", b"x")
    remote.finish()
    own = set(threading.enumerate()) - before
    assert own
    del remote
    for thread in own:
        thread.join(10)
    assert not any(thread.is_alive() for thread in own)
