"""``precast record`` without a GPU: a program runs as it would by itself, and what it asked for is kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.builds import command, environment, kept_store, precast

pytest.importorskip("torch")

ASK = """
import sys
from toy_attached.kernels import compiled_alone
compiled_alone(int(sys.argv[1]))
"""
BEFORE = """
version: 1
name: mine
targets: [sm_90a]
kernels:
  - compile: "toy_attached.kernels:compiled_alone@toy"
    op: attach.toy.kernels_compiled_alone_86365204
    config: {value: 2}
"""
Record = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Runs ``precast record`` in ``tmp_path`` for the library ``toy``, on the program ``ask.py``."""
    monkeypatch.setenv("PYTHONPATH", str(write_toy_library(tmp_path / "site", compiler=False)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ask.py").write_text(ASK)

    def run(*words: object, target: tuple[str, ...] = ("-t", "sm_90a")) -> subprocess.CompletedProcess[str]:
        return precast(kept_store(), "record", *target, "--library", "toy", *words)

    return run


def values(path: Path) -> list[int]:
    """The one argument of every kernel in a manifest."""
    return [entry["config"]["value"] for entry in yaml.safe_load(path.read_text())["kernels"]]


@pytest.mark.slow
def test_the_program_runs_as_it_would_by_itself(tmp_path: Path, record: Record) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "beside.py").write_text("NAME = 'beside it'")
    (folder / "ask.py").write_text(f"{ASK}\nimport beside\nprint(beside.NAME, __name__, sys.argv)\n")
    done = record("-o", "out.yaml", "--", "python", "programs/ask.py", "1", "--fast", "-o", "x")
    assert done.returncode == 0, done.stderr
    assert "beside it __main__ ['programs/ask.py', '1', '--fast', '-o', 'x']\n" in done.stdout
    assert "out.yaml: 1 kernel (toy 1)" in done.stdout
    assert values(tmp_path / "out.yaml") == [1]


@pytest.mark.slow
def test_a_module_is_run_by_its_name(tmp_path: Path, record: Record) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(ASK)
    done = record("-o", "out.yaml", "--", "python", "-m", "package", "7")
    assert done.returncode == 0, done.stderr
    assert values(tmp_path / "out.yaml") == [7]


@pytest.mark.slow
def test_what_a_program_asked_for_before_it_failed_is_kept(tmp_path: Path, record: Record) -> None:
    (tmp_path / "ask.py").write_text(f"{ASK}\nsys.exit(3)\n")
    done = record("-o", "out.yaml", "--", "ask.py", "1")
    assert done.returncode == 1
    assert "the program ended with status 3; out.yaml has the kernels that it had used by then" in done.stderr
    assert values(tmp_path / "out.yaml") == [1]


@pytest.mark.slow
def test_a_value_that_only_a_kernel_would_compute_is_one_line(tmp_path: Path, record: Record) -> None:
    (tmp_path / "ask.py").write_text(f"{ASK}\nimport torch\ntorch.empty(1, device='cuda').item()\n")
    done = record("-o", "out.yaml", "--", "ask.py", "1")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "ask.py:7: Tensor.item reads a value that a meta tensor lacks" in done.stderr
    assert values(tmp_path / "out.yaml") == [1]


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_what_a_program_asked_for_before_it_is_ended_is_kept(
    tmp_path: Path, record: Record, end: signal.Signals
) -> None:
    (tmp_path / "ask.py").write_text(f"{ASK}\nimport time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    words = command("record", "-t", "sm_90a", "--library", "toy", "-o", "out.yaml", "--", "ask.py", "1")
    with subprocess.Popen(
        words, env=environment(kept_store()), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if end == signal.SIGINT:
            os.killpg(process.pid, end)  # as a terminal does
        else:
            process.send_signal(end)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert f"was ended by {end.name}" in said
    assert values(tmp_path / "out.yaml") == [1]


def test_a_program_that_asks_for_nothing_writes_nothing(tmp_path: Path, record: Record) -> None:
    (tmp_path / "ask.py").write_text("")
    done = record("-o", "out.yaml", "--", "ask.py")
    assert done.returncode == 2
    assert "used no kernel of an attached library (it ended with status 0)" in done.stderr
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize("output", ["no/out.yaml", "site", "ask.py/x"])
def test_an_output_that_cannot_be_written_is_refused_before_the_program_runs(
    tmp_path: Path, record: Record, output: str
) -> None:
    (tmp_path / "ask.py").write_text("open('ran', 'w')")
    done = record("-o", output, "--", "ask.py")
    assert done.returncode == 2
    assert "name a file in a folder that exists" in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "ran").exists()


def test_without_a_gpu_and_without_a_target_nothing_is_run(tmp_path: Path, record: Record) -> None:
    (tmp_path / "ask.py").write_text("open('ran', 'w')")
    done = record("-o", "out.yaml", "--", "ask.py", target=())
    if done.returncode == 0 or (tmp_path / "ran").exists():
        pytest.skip("there is a GPU here")
    assert done.returncode == 2
    assert "such as --target sm_100a" in done.stderr


@pytest.mark.slow
def test_recordings_are_added_up(tmp_path: Path, record: Record) -> None:
    (tmp_path / "out.yaml").write_text(BEFORE)
    added = record("-o", "out.yaml", "--append", "--", "ask.py", "1")
    assert added.returncode == 0, added.stderr
    assert values(tmp_path / "out.yaml") == [1, 2]
    assert yaml.safe_load((tmp_path / "out.yaml").read_text())["name"] == "mine"
    other = record("-o", "out.yaml", "--append", "--", "ask.py", "3", target=("-t", "sm_100a"))
    assert other.returncode == 2
    assert "is for sm_90a: record for sm_100a in another file" in other.stderr


def test_a_name_that_no_manifest_can_have_is_refused_before_the_program_runs(tmp_path: Path, record: Record) -> None:
    (tmp_path / "ask.py").write_text("raise SystemExit('it ran')")
    done = record("-t", "sm_90a", "--library", "toy", "-o", "out.yaml", "--name", "my_name", "--", "ask.py")
    assert done.returncode == 2
    assert "'my_name' is not a name of a manifest" in done.stderr and "it ran" not in done.stderr


def test_a_library_that_is_not_known_is_refused(record: Record) -> None:
    done = record("--library", "tyo", "-o", "out.yaml", "--", "ask.py", "1")
    assert done.returncode == 2
    assert "no library 'tyo' is declared" in done.stderr


OLD = """
version: 1
name: mine
targets: [sm_90a]
kernels:
  - compile: "toy_attached.kernels:compiled_alone@toy"
    config: {value: 2, library_version: "0.9", library_source: old}
  - compile: "toy_attached.kernels:compiled_alone@toy"
    config: {value: 2, width: 8, library_version: "0.9", library_source: old}
  - compile: "toy_attached.kernels:compiled_no_more@toy"
    config: {value: 2, library_version: "0.9", library_source: old}
"""


@pytest.mark.slow
def test_what_an_upgrade_did_not_change_is_taken_over(tmp_path: Path, record: Record) -> None:
    (tmp_path / "old.yaml").write_text(OLD)
    done = precast(kept_store(), "record", "--update", "old.yaml")
    assert done.returncode == 1, done.stderr
    assert "old.yaml: 1 kernel of 3 taken over" in done.stdout
    left_out = [line for line in done.stderr.splitlines() if "left out: " in line]
    assert len(left_out) == 2 and "'width'" in done.stderr and "compiled_no_more@toy" in done.stderr
    assert values(tmp_path / "old.yaml") == [2]
    (entry,) = yaml.safe_load((tmp_path / "old.yaml").read_text())["kernels"]
    assert entry["config"]["library_version"] == "1.0" and entry["config"]["library_source"] != "old"
    again = precast(kept_store(), "record", "--update", "old.yaml", "-o", "same.yaml")
    assert again.returncode == 0 and (tmp_path / "same.yaml").read_text() == (tmp_path / "old.yaml").read_text()


@pytest.mark.slow
def test_a_recording_of_which_nothing_can_be_taken_over_stays(tmp_path: Path, record: Record) -> None:
    gone = OLD.replace("compiled_alone", "compiled_gone")
    (tmp_path / "old.yaml").write_text(gone)
    done = precast(kept_store(), "record", "--update", "old.yaml")
    assert done.returncode == 1 and "record again; it is unchanged" in done.stderr
    assert (tmp_path / "old.yaml").read_text() == gone


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--update", "old.yaml", "--", "ask.py"), "--update takes the whole recording as it is"),
        (("--", "ask.py"), "no manifest is named: add -o recorded.yaml"),
    ],
)
def test_what_is_updated_or_written_is_named(words: tuple[str, ...], reason: str, record: Record) -> None:
    done = record(*words)
    assert done.returncode == 2 and reason in done.stderr
