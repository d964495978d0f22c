"""``precast build --watch``: another output folder, and its end by Ctrl-C or SIGTERM, also within a round."""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

import pytest
import typer
from pytest import MonkeyPatch

from precast.build.ipc.process_tree import descendants
from precast.cli.shared.builds import rounds
from precast.cli.shared.builds.rounds import Watch
from precast.cli.shared.builds.run import BuildRequest
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import command, environment, manifest, module

pytestmark = pytest.mark.usefixtures("without_torch")
LONGEST = 120.0  # seconds for a round, on a busy machine


class Watched:
    """A watched build in a process of its own, and the lines that it prints."""

    def __init__(self, folder: Path, *, ignored: bool) -> None:
        handler = signal.SIG_IGN if ignored else signal.default_int_handler
        self.process = subprocess.Popen(
            command("build", "--watch", "-j", 1),
            cwd=folder,
            env=environment(folder / "store", NO_COLOR="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
        )
        self.lines: Queue[str] = Queue()
        self.seen: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip())

    def line_with(self, text: str) -> str:
        """The next line that has a text."""
        end = time.monotonic() + LONGEST
        with contextlib.suppress(Empty):
            while (left := end - time.monotonic()) > 0:
                self.seen.append(self.lines.get(timeout=left))
                if text in self.seen[-1]:
                    return self.seen[-1]
        raise AssertionError(f"no line with {text!r} in {self.seen}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def watched(folder: Path, *, ignored: bool = False) -> Iterator[Watched]:
    build = Watched(folder, ignored=ignored)
    try:
        yield build
    finally:
        build.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    module(tmp_path, "mine", "def add(n: int):\n    return compile_add(n)\n")
    manifest(tmp_path, {"mine:add": [1]})
    (tmp_path / "precast.toml").write_text('manifests = "mine.yaml"\n')
    return tmp_path


def artifacts(folder: Path) -> int:
    return len(Cache(folder / "cache").op("user.add").artifacts)


@pytest.mark.slow
def test_another_output_folder_is_one_round_and_the_old_cache_no_input(folder: Path) -> None:
    helper = folder / "adding.py"
    with watched(folder) as build:
        build.line_with("1 variant built, 0 reused: cache")
        helper.write_text(helper.read_text().replace("x[i] + value", "x[i] - value"))  # imported by the kernel's module
        assert "adding.py changed: 1 variant built" in build.line_with(" changed: ")
        (folder / "precast.toml").write_text('manifests = "mine.yaml"\noutput = "elsewhere"\n')
        assert "precast.toml changed: 0 variants built, 1 reused: elsewhere" in build.line_with(" changed: ")
        time.sleep(1.5)
        assert list(build.lines.queue) == [], "no round follows: the old cache is in the folder that is watched"
        assert build.end(signal.SIGINT) == 130
        assert "interrupted: the cache is that of the last round" in build.line_with("interrupted")


def test_a_file_saved_right_after_the_last_look_of_a_round_is_seen(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("before")
    rounds_made: list[str] = []

    def make() -> BuildRequest:
        rounds_made.append(file.read_text())
        if len(rounds_made) == 2:
            raise KeyboardInterrupt
        raise typer.BadParameter("a round that fails")

    def save(paths: Iterable[str], nanoseconds: int) -> tuple[str, ...]:
        file.write_text("after")
        return ()

    def sleep(seconds: float) -> None:
        assert next(sleeps) < 10, "the change is not seen"

    sleeps = itertools.count()
    monkeypatch.setattr(rounds, "modified_since", save)  # called right after the look
    with pytest.raises(KeyboardInterrupt):
        Watch(make, sleep=sleep, _paths=frozenset([str(file)])).run()
    assert rounds_made == ["before", "after"]


@pytest.mark.slow
def test_sigterm_ends_it_too(folder: Path) -> None:
    """Also in the background of a shell, which starts its jobs there with SIGINT ignored."""
    with watched(folder, ignored=True) as build:
        build.line_with("1 variant built")
        assert build.end(signal.SIGTERM) == 130
    assert artifacts(folder) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_round_leaves_nothing_half_written(folder: Path, number: int) -> None:
    (folder / "mine.py").write_text(
        "import pathlib, time\nfrom adding import compile_add\n"
        "def add(n: int):\n    pathlib.Path('/proc/self/comm').write_text('compiling')\n    time.sleep(600)\n"
    )  # a compilation can write no file that this test sees; the name of its process can be seen
    with watched(folder) as build:
        end = time.monotonic() + LONGEST
        while "compiling" not in map(name_of, descendants(build.process.pid)):
            assert time.monotonic() < end and build.process.poll() is None
            time.sleep(0.05)
        assert build.end(number) == 130
    left = {path.name for path in folder.iterdir() if not path.name.startswith("__")}
    assert left <= {"mine.py", "adding.py", "mine.yaml", "precast.toml", "store"}, left


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
