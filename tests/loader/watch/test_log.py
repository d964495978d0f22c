"""The log: what it says, in whole lines, and that it is never an error of the program."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast import loader
from precast.loader.machine.machine import Machines
from precast.loader.watch import notice
from precast.loader.watch.log import WholeLines, logger_for
from tests.helpers.echo import HOPPER
from tests.helpers.loader_fixtures import Use

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ (INFO|DEBUG|WARNING|ERROR) .*")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    logger = logging.getLogger("precast")
    yield
    for handler in [one for one in logger.handlers if isinstance(one, WholeLines)]:
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = True
    logger.setLevel(logging.NOTSET)
    notice._reported.clear()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECAST_LOG", "info")
    monkeypatch.setenv("PRECAST_LOG_FILE", str(tmp_path / "log.txt"))
    return tmp_path / "log.txt"


def test_what_is_told(path: Path, use: Use, file: Path) -> None:
    use(path, machines=Machines(HOPPER))
    kernel = loader.get("scale", {"dtype": "bf16"})
    kernel(3)
    kernel(4)
    with pytest.raises(loader.VariantNotFound):
        loader.get("scale", {"dtype": "float64"})
    with pytest.raises(ValueError):
        kernel("no")
    lines = file.read_text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    told = [line.split(" ", 2)[2] for line in lines]
    key = kernel.artifact.key
    expected = [
        f"INFO cache demo (PRECAST_CACHE_PATH): 2 ops at {path}, index ",
        f"INFO loaded scale {{dtype: bfloat16, layout: row, threads: 256}} for sm_90a: {key[:12]} of cache demo, ",
        f"INFO resolved scale {{dtype: bf16}}: {key} for sm_90a of cache demo: the first of 2 that fit",
        f"INFO first launch of scale {key[:12]} for sm_90a",
        f"INFO first launch of scale {key[:12]} for sm_90a is queued after ",
        "WARNING missing scale {dtype: float64}: PCL07 VariantNotFound: no variant fits; nearest ",
        f"ERROR a call of scale {key[:12]} for sm_90a failed: ValueError: expected an int",
    ]
    assert len(told) == len(expected)
    for found, begin in zip(told, expected, strict=True):
        assert found.startswith(begin), found


def test_debug_tells_what_was_refused(path: Path, use: Use, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECAST_LOG", "debug")
    use(path, machines=Machines(HOPPER))
    loader.get("scale", {"dtype": "bf16"})
    refused = [line for line in file.read_text().splitlines() if " DEBUG refused for scale {dtype: bf16}: " in line]
    assert len(refused) == 10
    assert sum("built for sm_100a, this GPU is 9.0" in line for line in refused) == 6


def test_only_what_is_missing(path: Path, use: Use, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECAST_LOG", "warning")
    use(path, machines=Machines(HOPPER))
    assert loader.get("scale", {"dtype": "bf16"})(1) == 2
    with pytest.raises(loader.OpNotFound):
        loader.get("nope")
    assert [line.split(" ")[2] for line in file.read_text().splitlines()] == ["WARNING"]


def test_a_broken_cache_is_told(path: Path, tmp_path: Path, use: Use, file: Path) -> None:
    (tmp_path / "broken").mkdir()
    use(tmp_path / "broken", path, machines=Machines(HOPPER))
    loader.caches()
    assert "WARNING cache left out: PCL04 broken (PRECAST_CACHE_PATH): " in file.read_text()


@pytest.mark.parametrize("value", ["0", "", " "])
def test_off(value: str) -> None:
    assert logger_for({"PRECAST_LOG": value}) is None


def test_an_unknown_level_is_told_and_logs(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logger_for({"PRECAST_LOG": "loud"})
    assert logger is not None and logger.level == logging.INFO
    assert "PRECAST_LOG='loud' is not a level" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["folder", "missing", "fifo"])
def test_a_place_that_cannot_be_written_is_told_once(
    kind: str, tmp_path: Path, path: Path, use: Use, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = {"folder": tmp_path, "missing": tmp_path / "no" / "log", "fifo": tmp_path / "fifo"}[kind]
    if kind == "fifo":
        os.mkfifo(place)
    monkeypatch.setenv("PRECAST_LOG", "1")
    monkeypatch.setenv("PRECAST_LOG_FILE", str(place))
    for _ in range(2):
        use(path, machines=Machines(HOPPER))
        assert loader.get("scale", {"dtype": "bf16"})(1) == 2
    told = capfd.readouterr().err
    assert told.count("precast: warning: PRECAST_LOG_FILE") == 1 and "INFO resolved scale" in told


def test_a_full_disk_is_no_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    logger = logger_for({"PRECAST_LOG": "1", "PRECAST_LOG_FILE": "/dev/full"})
    assert logger is not None
    logger.info("lost")
    logger.info("lost too")
    assert capfd.readouterr().err.count("the log cannot be written") == 1


def test_a_handler_of_the_program_gets_it_too(file: Path) -> None:
    logger = logger_for(os.environ)
    assert logger is logging.getLogger("precast")
    seen: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    mine = Keeping()
    logger.addHandler(mine)
    try:
        logger.info("once")
    finally:
        logger.removeHandler(mine)
    assert seen == ["once"] and file.read_text().count("once") == 1


@given(st.text(max_size=60))
def test_no_message_can_forge_a_line_or_change_a_terminal(text: str) -> None:
    record = logging.LogRecord("precast", logging.INFO, "", 0, "%s", (text,), None)
    written = WholeLines.text(record)
    assert written.endswith("\n")
    for line in written[:-1].split("\n"):
        assert LINE.fullmatch(line) and line.isprintable()


WRITER = """
import threading
from precast.loader.watch.log import logger_for
log = logger_for({"PRECAST_LOG": "1", "PRECAST_LOG_FILE": FILE})
def work(name):
    for number in range(50): log.info("%s %d %s", name, number, "x" * 3000)
threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_lines_of_threads_and_processes_stay_whole(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    code = f"FILE = {str(file)!r}\n{WRITER}"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [one.wait() for one in running] == [0, 0, 0]
    lines = file.read_text().splitlines()
    assert len(lines) == 3 * 4 * 50
    assert all(LINE.fullmatch(line) and line.endswith(" " + "x" * 3000) for line in lines)


def test_threads_of_this_process(file: Path) -> None:
    logger = logger_for(os.environ)
    assert logger is not None
    threads = [threading.Thread(target=logger.info, args=("a\nb",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [line.rpartition(" ")[2] for line in file.read_text().splitlines()] == ["a", "b"] * 20
