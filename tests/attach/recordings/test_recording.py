"""Recordings: files that many processes add to, and that somebody else may have written."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.recorder import Recorder
from precast.attach.recordings.recording import Recorded, merged, read_recording
from precast.loader.errors import ConfigError, FormatError

GOOD: dict[str, Any] = {"library": "quack", "compile": "quack.a:F.g", "config": {"N": 8, "t": ["$list", 1]}}


def recorded(n: int, call: dict[str, Any] | None = None) -> Recorded:
    return Recorded(library="quack", compile="quack.a:f", config={"N": n}, call=call)


ONES = st.builds(recorded, st.integers(0, 3), st.none() | st.dictionaries(st.just("x"), st.integers(0, 3), min_size=1))


@given(st.lists(ONES), st.randoms())
def test_merging_does_not_depend_on_the_order(ones: list[Recorded], random: Any) -> None:
    shuffled = list(ones)
    random.shuffle(shuffled)
    text = [one.text for one in merged(ones)]
    assert [one.text for one in merged(shuffled)] == text == sorted(text)
    lines = b"".join(one.text.encode() + b"\n" for one in shuffled)
    assert [one.text for one in read_recording(lines)] == text
    assert len({one.key for one in ones}) == len(text)


@given(st.lists(ONES), st.randoms())
def test_what_is_recorded_does_not_depend_on_the_order_of_calls(ones: list[Recorded], random: Any) -> None:
    shuffled = list(ones)
    random.shuffle(shuffled)
    with tempfile.TemporaryDirectory() as folder:
        recorder, other = Recorder(Path(folder) / "one"), Recorder(Path(folder) / "other")
        for one, moved in zip(ones, shuffled, strict=True):
            recorder.add(one)
            other.add(moved)
        assert recorder.recorded == other.recorded == merged(ones)
        for path in (recorder.path, other.path):
            assert path is not None
            assert read_recording(path.read_bytes() if path.exists() else b"") == merged(ones)


def test_a_last_line_that_was_cut_is_left_out_wherever_it_is_cut() -> None:
    first, last = recorded(1).text.encode(), recorded(2).text.encode()
    for end in range(len(last)):
        assert read_recording(first + b"\n" + last[:end]) == (recorded(1),)
    assert len(read_recording(first + b"\n" + last)) == 2


def test_a_corrupt_line_is_an_error_with_its_number() -> None:
    good = recorded(1).text.encode()
    with pytest.raises(FormatError, match=r"line 2 of the recording: .*: remove it"):
        read_recording(good + b"\n{\n" + good + b"\n")
    with pytest.raises(FormatError, match=r"line 1 of the recording: .*not JSON"):
        read_recording(b"\xff\xfe\n" + good)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"library": "../x"}, "not the name of a library"),
        ({"library": 1}, "not the name of a library"),
        ({"compile": "os.system"}, "not a function"),
        ({"compile": "os:system('x')"}, "not a function"),
        ({"compile": "..os:system"}, "not a function"),
        ({"compile": None}, "not a function"),
        ({"config": []}, "expected an object"),
        ({"config": {"a b": 1}}, "not a name of an argument"),
        ({"config": {"x" * 65: 1}}, "not a name of an argument"),
        ({"config": {"n": 2**70}}, "beyond 64 bits"),
        ({"config": {"n": "x" * 2000}}, "2000 characters"),
        ({"config": {"n": {}}}, "not a config value"),
        ({"config": {"n": json.loads("[" * 14 + "]" * 14)}}, "nest deeper"),
        ({"call": {"n": {}}}, "not a config value"),
        ({"more": 1}, "more"),
    ],
)
def test_hostile_lines_are_refused(change: dict[str, Any], reason: str) -> None:
    Recorded.parse(GOOD)
    with pytest.raises(FormatError, match=reason):
        Recorded.parse({**GOOD, **change})


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(FormatError, match="more than the"):
        read_recording(b'"' + b"x" * (1 << 20) + b'"\n\n')
    with pytest.raises(FormatError):
        read_recording(b"[" * 100_000 + b"\n\n")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    assert [recorder.add(recorded(n)) for n in (2, 1, 2)] == [True, True, False]
    assert read_recording((tmp_path / "r").read_bytes()) == recorder.recorded == (recorded(1), recorded(2))


def test_a_line_that_a_killed_process_left_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(recorded(1).text.encode()[:20])
    Recorder(path).add(recorded(2))
    assert path.read_bytes().splitlines()[1] == recorded(2).text.encode()


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "r"
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from precast.attach.recorder import Recorder\n"
        "from precast.attach.recordings.recording import Recorded\n"
        "from precast.loader.errors import ConfigError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (80, 80))\n"
        "recorder, one = Recorder(Path(sys.argv[1])), lambda n: Recorded(library='a', compile='a:b', config={'N': n})\n"
        "recorder.add(one(1))\n"
        "for _ in range(2):\n"
        "    try: recorder.add(one(2))\n"
        "    except ConfigError as error: assert 'name a file' in str(error)\n"
        "    else: sys.exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert len(path.read_bytes().splitlines()) == len(read_recording(path.read_bytes())) == 1


def test_a_recording_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot write the recording .*missing/r .*: name a file that can be written"
    ):
        Recorder(tmp_path / "missing" / "r").add(recorded(1))


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from precast.attach.recorder import Recorder\n"
        "from precast.attach.recordings.recording import Recorded\n"
        "recorder, start = Recorder(Path(sys.argv[1])), int(sys.argv[2])\n"
        "for n in range(start, start + 200):\n"
        "    recorder.add(Recorded(library='a', compile='a:b', config={'N': n, 'pad': 'x' * 1000}))\n"
    )
    path = tmp_path / "r"
    children = [subprocess.Popen([sys.executable, "-c", script, str(path), str(n)]) for n in (0, 100)]
    assert [child.wait() for child in children] == [0, 0]
    assert len(path.read_bytes().splitlines()) == 400
    assert len(read_recording(path.read_bytes())) == 300


def test_a_process_waits_while_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "r"
    writer = threading.Thread(target=Recorder(path).add, args=(recorded(1),))
    with open(path, "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer.start()
        writer.join(0.2)
        waited, written = writer.is_alive(), path.read_bytes()
    writer.join(60)
    assert waited and not written
    assert read_recording(path.read_bytes()) == (recorded(1),)
