"""The builder without precast-attach: what needs it says what to install, and all else works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.builds import precast

ADVICE = "pip install 'precast[attach]'"
MANIFEST = "version: 1\nname: mine\ntargets: [sm_90a]\nkernels:\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of processes that find no ``precast.attach``."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['precast.attach'] = None\n")
    (tmp_path / "ask.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("record", "-t", "sm_90a", "-o", "out.yaml", "--", "python", "ask.py"),
        ("check", "--engine", "vllm", "--model", "config.json", "cache"),
    ],
)
def test_a_command_that_records_says_what_to_install(folder: Path, words: tuple[str, ...]) -> None:
    done = precast(folder / "store", *words)
    assert done.returncode == 1 and ADVICE in done.stderr and done.stderr.count("\n") <= 2, done.stderr


@pytest.mark.parametrize("entry", ["  - script: ask.py\n", '  - compile: "quack.softmax:Softmax.compile@quack"\n'])
def test_a_plan_of_attached_kernels_says_what_to_install(folder: Path, entry: str) -> None:
    (folder / "mine.yaml").write_text(MANIFEST + entry + ("    op: attach.quack.x\n" if "compile" in entry else ""))
    done = precast(folder / "store", "plan", "mine.yaml")
    assert done.returncode in (1, 2) and ADVICE in done.stderr, done.stderr


def test_other_kernels_are_planned(folder: Path) -> None:
    (folder / "mine.yaml").write_text(f"{MANIFEST}  - kernel: scale\n    config: {{dtype: bfloat16}}\n")
    done = precast(folder / "store", "plan", "mine.yaml")
    assert done.returncode == 0 and "scale" in done.stdout, done.stderr
