"""``precast record --engine``: what it refuses, before anything of an engine is imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.builds import precast

NONE = """
version: 1
name: none
targets: [sm_90a]
kernels:
  - compile: "quack.softmax:Softmax.compile@quack"
    config: {N: 8}
"""


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--engine", "vllm"), "--engine vllm needs the model: add --model config.json"),
        (("--engine", "vlm", "--model", "m"), "--engine vlm: the engines are vllm"),
        (("--engine", "vllm", "--model", "nowhere"), "nowhere is not a model's config.json"),
        (("--engine", "vllm", "--model", "m", "--", "python", "ask.py"), "--engine vllm needs no program: remove"),
        (("--model", "m", "--", "python", "ask.py"), "--model belongs to --engine"),
        ((), "no program is given: write it after '--', or use --engine with --model"),
    ],
)
def test_it_says_what_is_missing(
    words: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    done = precast(tmp_path / "store", "record", "-t", "sm_100a", "-o", "out.yaml", *words)
    assert done.returncode == 2 and reason in done.stderr, done.stderr
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vllm is installed here")
def test_an_engine_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    model = ("--model", tmp_path / "config.json")
    done = precast(
        tmp_path / "store", "record", "-t", "sm_100a", "-o", tmp_path / "out.yaml", "--engine", "vllm", *model
    )
    assert done.returncode == 2 and "vllm is not installed here: pip install vllm" in done.stderr, done.stderr


def test_an_engine_that_cannot_make_the_model_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is a stand-in that has none of vLLM's modules."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ("--engine", "vllm", "--model", tmp_path / "config.json", "-o", tmp_path / "out.yaml")
    done = precast(tmp_path / "store", "record", "-t", "sm_100a", *words)
    assert done.returncode == 1 and "nothing was recorded: vllm did not list the kernels" in done.stderr, done.stderr
    assert "PCL01" not in done.stderr and not (tmp_path / "out.yaml").exists()


def test_a_check_of_an_engine_takes_no_options_of_manifests(tmp_path: Path) -> None:
    words = ("--engine", "vllm", "--model", tmp_path, "recorded.yaml", "--json")
    done = precast(tmp_path / "store", "check", *words)
    assert done.returncode == 2 and "leave out all options but --target" in done.stderr, done.stderr


@pytest.mark.slow
def test_each_target_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is a stand-in that has none of vLLM's modules."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "none.yaml").write_text(NONE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ("--engine", "vllm", "--model", tmp_path / "config.json", tmp_path / "none.yaml")
    done = precast(tmp_path / "store", "check", "-t", "sm_90a", "-t", "sm_100a", *words)
    assert done.returncode == 1 and "the engine ended with status 1: it may request more keys" in done.stderr
    for target in ("sm_90a", "sm_100a"):
        assert f"0 of 0 keys of the engine for {target} are in " in done.stdout
