"""The commands: what they print, for people and for scripts, and their exit statuses."""

from __future__ import annotations

import fcntl
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from precast.cli import main as cli
from precast.fetch import __main__ as command
from precast.fetch.fetcher import fetch
from precast.fetch.transport.progress import Progress
from precast.loader.resolve.cache import Cache
from tests.helpers.packed_caches import tree
from tests.helpers.web.many import many


def run(words: list[str], capsys: pytest.CaptureFixture[str], *, builder: bool) -> tuple[int, str, str]:
    """Run one of the two commands that fetch."""
    if not builder:
        status = command.main(words)
    else:
        try:
            cli.run(["fetch", *words])
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("builder", [False, True])
def test_both_commands_say_the_same(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, builder: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    digest = Cache(old).digest
    words = [f"file://{old}", "-o", "cache", "--digest", digest]
    status, out, err = run(words, capsys, builder=builder)
    assert (status, err) == (0, "")
    first, pin = out.splitlines()
    assert first.startswith(f"cache: 40 artifacts of file://{old}, ") and first.endswith("fetched, 0 B reused")
    assert pin == f"PRECAST_PIN=many={digest}"
    status, out, _ = run([*words, "--json"], capsys, builder=builder)
    data = json.loads(out)
    assert status == 0 and (data["pin"], data["changed"], data["fetched"]) == (f"many={digest}", False, 0)
    assert tree(tmp_path / "cache") == tree(old)


@pytest.mark.parametrize("builder", [False, True])
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["kernels:v1", "-o", "cache"], 2, "error: 'kernels:v1' is not a reference: write oci://"),
        (["file:///proc/nowhere", "-o", "cache"], 1, "error: file:///proc/nowhere is not a folder: check the path"),
        (["file:///proc/nowhere", "-o", "cache", "--digest", "v1"], 2, "error: 'v1' is not a digest"),
        (["file:///proc/nowhere", "-o", "sources"], 2, "/sources is not a cache and not empty"),
    ],
)
def test_errors_and_their_statuses(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    builder: bool,
    words: list[str],
    status: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "main.c").touch()
    ended, out, err = run(words, capsys, builder=builder)
    assert (ended, out) == (status, "")
    assert err.startswith("error: ") and said in err


@pytest.mark.parametrize("words", [[], ["file:///a"], ["file:///a", "-o", "b", "-j", "0"], ["a", "-o", "b", "-j", "x"]])
def test_requests_that_are_incomplete(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == 2
    assert "usage: python -m precast.loader.fetch" in capsys.readouterr().err


def test_a_push_prints_what_a_fetch_takes(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def push(*more: str) -> None:
        with pytest.raises(SystemExit) as ended:
            cli.run(["push", str(old), f"file://{tmp_path / 'shelf'}", *more])
        assert ended.value.code == 0

    for expected in ("sent, 0 B there already", "there already"):
        push()
        first, pin = capsys.readouterr().out.splitlines()
        assert first.startswith(f"file://{tmp_path / 'shelf'}: 2 layers, ") and first.endswith(expected)
    push("--json")
    data = json.loads(capsys.readouterr().out)
    assert f"PRECAST_PIN={data['pin']}" == pin
    words = [data["reference"], "-o", str(tmp_path / "cache"), "--digest", data["digest"]]
    assert run(words, capsys, builder=False)[0] == 0


def test_fetching_imports_nothing_of_the_builder(old: Path, tmp_path: Path) -> None:
    """Nor torch, nor tvm_ffi, nor a package that the loader does not need. The loader by itself does not import it."""
    alone = "import sys, precast.loader; sys.exit(any(m.startswith('precast.fetch') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", alone], check=False).returncode == 0
    script = (
        "import sys\nfrom precast.fetch.__main__ import main\n"
        f"assert main(['file://{old}', '-o', '{tmp_path / 'cache'}']) == 0\n"
        "own = {m.partition('.')[0] for m in sys.modules if getattr(sys.modules[m], '__file__', None)"
        " and 'site-packages' in str(sys.modules[m].__file__)}\n"
        "ours = ('precast.loader', 'precast.fetch')\n"
        "others = [m for m in sys.modules if m.startswith('precast.') and not m.startswith(ours)]\n"
        "print(sorted(own - {'zstandard'}), others)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1]
    for heavy in ("torch", "tvm_ffi", "yaml", "typer", "rich", "requests", "huggingface_hub"):
        assert repr(heavy) not in loaded
    assert loaded.endswith(" []")


def test_a_reader_that_has_gone_is_no_traceback(old: Path, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "precast.loader.fetch", f"file://{old}", "-o", str(tmp_path / "cache")]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
    assert tree(tmp_path / "cache") == tree(old)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    now = [0.0]
    stream = Terminal()
    with Progress(stream, clock=lambda: now[0]) as progress:
        progress.expect(2_000_000)
        for _ in range(4):
            now[0] += 0.5
            progress.advance(500_000)
    shown = stream.getvalue()
    assert "\n" not in shown and "1.5 MB of 2.0 MB, 1.0 MB/s" in shown
    assert shown.rpartition("\r")[2] == "" and shown.rsplit("\r", 2)[1].strip() == ""


def test_progress_in_a_log_is_a_line_now_and_then() -> None:
    now = [0.0]
    stream = io.StringIO()
    with Progress(stream, clock=lambda: now[0]) as progress:
        progress.expect(100)
        for _ in range(50):
            now[0] += 1.0
            progress.advance(1)
        progress.report("another fetch is running")
    lines = stream.getvalue().splitlines()
    assert lines == [*(f"{n} B of 100 B, 1 B/s" for n in (10, 20, 30, 40, 50)), "another fetch is running"]


def test_a_second_fetch_says_that_it_waits(old: Path, tmp_path: Path) -> None:
    staging = tmp_path / ".cache.precast-fetch"
    staging.mkdir()
    handle = os.open(staging, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    stream, told = io.StringIO(), threading.Event()

    class Telling(Progress):
        def report(self, text: str) -> None:
            super().report(text)
            told.set()

    one = threading.Thread(target=lambda: fetch(f"file://{old}", tmp_path / "cache", progress=Telling(stream)))
    one.start()
    assert told.wait(20)
    os.close(handle)
    one.join()
    assert stream.getvalue() == f"another fetch into {tmp_path / 'cache'} is running: waiting for it\n"
    assert tree(tmp_path / "cache") == tree(many(tmp_path / "same"))
