"""The file of requests: each once a process, counted, whole lines of many processes, and never in the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader import session
from precast.loader.contract.diagnostics.requests import RequestRecord, read_requests
from precast.loader.machine.machine import Machines
from precast.loader.watch import notice, request_file
from precast.loader.watch.request_file import RequestFile, append_line
from tests.helpers.attacks import forge_op
from tests.helpers.caches import run_alone
from tests.helpers.echo import HOPPER
from tests.helpers.loader_fixtures import Use


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECAST_REQUESTS", str(tmp_path / "requests.jsonl"))
    notice._reported.clear()
    return tmp_path / "requests.jsonl"


def flushed(file: Path) -> dict[tuple[Any, ...], int]:
    """The counts of the file, by what tells its requests apart, after a flush."""
    assert session.default.watch is not None
    session.default.watch.flush()
    found = read_requests(file.read_bytes()).requests
    return {(r.op, r.config.get("dtype"), r.target, str(r.problem), bool(r.found)): r.count for r in found}


def test_what_is_noted(path: Path, use: Use, file: Path) -> None:
    use(path, machines=Machines(HOPPER))
    kernel = loader.get("scale", {"dtype": "bf16"}, problem={"n": 8})
    with pytest.raises(loader.VariantNotFound):
        loader.get("scale", {"dtype": "float64", "threads": 32}, target="sm_100a")
    with pytest.raises(loader.OpNotFound):
        loader.get("nope", {"tile": (64, 128)})
    with pytest.raises(loader.ConfigError):
        loader.get("scale", {"threads": 3.5, "dtype": "bf16"})
    used, missing, unknown, wrong = [json.loads(line) for line in file.read_text().splitlines()]
    assert used == {
        "op": "scale", "config": {"dtype": "bf16"}, "capability": "9.0", "problem": {"n": 8}, "count": 1,
        "cache": "demo", "found": kernel.artifact.key,
        "wanted": {
            "op": "scale", "config": {"dtype": "bfloat16", "layout": "row"}, "tuned": {"threads": 256},
            "target": "sm_90a",
        },
    }  # fmt: skip
    assert (
        missing["missing"].startswith("VariantNotFound: no variant fits; nearest ") and missing["target"] == "sm_100a"
    )
    assert missing["wanted"] == {
        "op": "scale",
        "config": {"dtype": "float64", "layout": "row"},
        "tuned": {"threads": 32},
        "target": "sm_100a",
    }
    assert unknown["missing"].startswith("OpNotFound: no cache holds op 'nope'")
    assert unknown["wanted"] == {"op": "nope", "config": {"tile": [64, 128]}, "tuned": {}, "target": "sm_90a"}
    assert wrong["missing"].startswith("ConfigError: ") and "wanted" not in wrong


def test_what_no_cache_could_serve_is_not_noted(path: Path, use: Use, file: Path) -> None:
    """Every line that is written can be read."""
    use(path, machines=Machines(HOPPER))
    requests: list[tuple[Any, ...]] = [("No Op", {}), ("scale", {"a b": 1}), ("scale", {"dtype": object()}), (3, {})]
    for op, config in requests:
        with pytest.raises(loader.PrecastError):
            loader.get(op, config)
    with pytest.raises(loader.TargetError):
        loader.get("scale", {"dtype": "bf16"}, target="sm_no")
    assert not file.exists() or read_requests(file.read_bytes()).requests == ()


def test_an_entry_that_no_reader_would_take_is_left_out(path: Path, use: Use, file: Path) -> None:
    """Such as one with the function of a cache that says anything; the request itself is noted."""

    def change(op: Any) -> None:
        for one in op["artifacts"]:
            one["provenance"] = {"function": "no function\n  - kernel: evil", "registered": False}

    forge_op(path, "scale", change)
    use(path, machines=Machines(HOPPER))
    loader.get("scale", {"dtype": "bf16"})
    (one,) = read_requests(file.read_bytes()).requests
    assert one.found and one.wanted is None


def test_counts(path: Path, use: Use, file: Path) -> None:
    """Of requests that were resolved again, of those that get remembers, and of those with a list."""
    use(path, machines=Machines(HOPPER))
    for _ in range(3):
        loader.get("scale", {"dtype": "bf16"})
    for _ in range(2):
        loader.get("scale", {"dtype": "bf16"}, problem={"n": 8})
        with pytest.raises(loader.OpNotFound):
            loader.get("nope", {"tile": [1]})
    assert len(file.read_text().splitlines()) == 3, "each distinct request is written at once, and once"
    expected = {
        ("scale", "bf16", None, "None", True): 3,
        ("scale", "bf16", None, "{'n': 8}", True): 2,
        ("nope", None, None, "None", False): 2,
    }
    assert flushed(file) == expected
    assert flushed(file) == expected, "what was written is not written again"


def test_a_refresh_keeps_the_counts(path: Path, use: Use, file: Path) -> None:
    use(path, machines=Machines(HOPPER))
    for _ in range(2):
        loader.get("scale", {"dtype": "bf16"})
        loader.get("scale", {"dtype": "bf16"})
        loader.caches(refresh=True)
    assert flushed(file) == {("scale", "bf16", None, "None", True): 4}


SERVICE = """
import os, signal, sys
from precast.loader.watch.request_file import RequestFile
from precast.loader.contract.diagnostics.requests import RequestRecord
file = RequestFile(sys.argv[1])
for number in range(int(sys.argv[2])):
    one = RequestRecord(op="scale", config={"n": number, "text": ["x" * 1000, "y" * 1000]}, missing="none")
    file.add(one, number)
    for _ in range(4): file.count(number)
print("noted", flush=True)
if len(sys.argv) > 3: sys.stdin.read()
"""


def test_many_processes_share_a_file(file: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", SERVICE, str(file), "100"]) for _ in range(4)]
    assert [one.wait() for one in running] == [0] * 4
    found = read_requests(file.read_bytes())
    assert not found.cut and len(found.requests) == 100
    assert {one.count for one in found.requests} == {4 * 5}


def test_what_a_killed_process_has_asked_for_is_there(file: Path) -> None:
    """SIGKILL leaves no time to write: each request once, and the counts of what was flushed."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(file), "20", "wait"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdout.readline() == "noted\n"
        child.kill()
        assert child.wait() == -signal.SIGKILL
    found = read_requests(file.read_bytes())
    assert not found.cut and [one.count for one in found.requests] == [1] * 20


def test_a_line_that_another_left_unfinished_is_ended(file: Path) -> None:
    line = RequestRecord(op="scale", config={}, missing="none").line
    file.write_bytes(line + b'{"op": "sca')
    append_line(str(file), line)
    assert file.read_bytes() == line + b'{"op": "sca\n' + line


def test_a_forked_child_counts_for_itself(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    code = f"""
import os
os.environ["PRECAST_REQUESTS"] = {str(file)!r}
from precast import loader
from precast.loader import session
get = lambda: loader.get("scale", {{"dtype": "bf16"}}, target="sm_90a")
for _ in range(3): get()
child = os.fork()
if child == 0:
    for _ in range(5): get()
    session.default.watch.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    run_alone(code, path, "error,ignore:This process:DeprecationWarning")
    (one,) = read_requests(file.read_bytes()).requests
    assert one.count == 3 + 5


@pytest.mark.parametrize("place", ["folder", "missing", "/dev/full"])
def test_a_place_that_cannot_be_written_is_told_once(
    place: str, path: Path, tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    notice._reported.clear()
    named = {"folder": tmp_path, "missing": tmp_path / "no" / "file"}.get(place, Path(place))
    monkeypatch.setenv("PRECAST_REQUESTS", str(named))
    use(path, machines=Machines(HOPPER))
    for dtype in ("bf16", "f16", "f32"):
        assert loader.get("scale", {"dtype": dtype}).op == "scale"
    assert capfd.readouterr().err.count("precast: warning: PRECAST_REQUESTS") == 1


def test_the_number_of_requests_is_bounded(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(request_file, "MOST", 3)
    one = RequestFile(str(file))
    for number in range(9):
        one.add(RequestRecord(op="scale", config={"n": number}, missing="none"), number)
    assert len(file.read_bytes().splitlines()) == 3
    assert capfd.readouterr().err.count("more than 3 distinct requests") == 1


def test_the_file_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(request_file, "FILE_LIMIT", 500)
    one = RequestFile(str(file))
    for number in range(50):
        one.add(RequestRecord(op="scale", config={"n": number}, missing="none"), number)
    assert os.stat(file).st_size <= 500 and not read_requests(file.read_bytes()).cut
    assert capfd.readouterr().err.count("and may hold 500") == 1
