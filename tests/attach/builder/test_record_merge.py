"""``precast record --merge`` joins what processes have recorded, and ``check --engine`` compares with that."""

from __future__ import annotations

from pathlib import Path

from precast.attach.builder.missing_keys import held_as, kernels_of, missing_of
from precast.attach.recorder import Recorder
from precast.attach.recordings.recording import Recorded
from precast.loader.contract.format.target import Target
from tests.helpers.builds import precast

ONE, TWO, THREE = (
    Recorded(library="quack", compile="quack.softmax:compile", config={"N": n, "k": [n]}) for n in (1, 2, 3)
)


def recorded(path: Path, *kernels: Recorded) -> Path:
    recorder = Recorder(path)
    for kernel in kernels:
        recorder.add(kernel)
    return path


def test_recordings_are_merged_and_added_to_a_manifest(tmp_path: Path) -> None:
    first, second = recorded(tmp_path / "a.jsonl", ONE), recorded(tmp_path / "b.jsonl", ONE, TWO)
    manifest = tmp_path / "all.yaml"
    done = precast(tmp_path, "record", "-t", "sm_90a", "--merge", first, "-o", manifest)
    assert done.returncode == 0 and "1 kernel (quack 1) from recordings" in done.stdout, done.stderr
    done = precast(tmp_path, "record", "--append", "--merge", first, "--merge", second, "-o", manifest)
    assert "2 kernels in all: 1 that it had, and 1 of these" in done.stdout, done.stdout + done.stderr
    held = list(kernels_of(manifest, Target.parse("sm_90a")))
    assert missing_of([ONE, TWO, THREE], held) == [THREE]


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.jsonl", ONE)
    recorded(path, TWO)
    assert len(path.read_text().splitlines()) == 2


def test_a_recording_that_cannot_be_read(tmp_path: Path) -> None:
    done = precast(tmp_path, "record", "-t", "sm_90a", "--merge", tmp_path / "no.jsonl", "-o", tmp_path / "all.yaml")
    assert done.returncode == 2 and "no.jsonl cannot be read" in done.stderr, done.stderr


def test_another_value_is_not_held() -> None:
    op, config = held_as(ONE)
    assert missing_of([ONE], [(op, {**config, "N": 2})]) == [ONE]
    assert missing_of([ONE], [("attach.quack.other", config)]) == [ONE]
