"""``precast toolchains``: what is listed, what is removed, what a lock looks like; and the options of its wheels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from precast.cli.main import app
from tests.helpers.toolchains.tiny_wheels import make_wheel

pytest.importorskip("uv", reason="uv is not installed: pip install 'precast[toolchains]'")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PRECAST_TOOLCHAINS", str(tmp_path / "toolchains"))
    for name, version in (
        ("nvidia-cutlass-dsl", "4.7.1"),
        ("nvidia-cutlass-dsl-libs-cu12", "4.7.1"),
        ("apache-tvm-ffi", "0.1.15"),
    ):
        requires = ["nvidia-cutlass-dsl-libs-cu12==4.7.1"] if name == "nvidia-cutlass-dsl" else []
        make_wheel(folder, name, version, requires=requires)
    (tmp_path / "m.yaml").write_text(
        'version: 1\nname: mine\ntargets: sm_90a\ntoolchain: {dsl: "4.7.1"}\nkernels: [{kernel: no.such}]\n'
    )
    return folder


def run(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.stdout


def made(tmp_path: Path, wheels: Path) -> dict[str, Any]:
    """Planning makes the environment; that no kernel is found in it is another matter."""
    with pytest.raises(Exception, match=r"registers the op .no\.such.") as caught:
        CliRunner().invoke(
            app, ["plan", str(tmp_path / "m.yaml"), "--find-links", str(wheels), "--offline"], catch_exceptions=False
        )
    assert "goes into its 'requirements'" in str(caught.value)
    (found,) = json.loads(run("toolchains", "--json"))["toolchains"]
    assert isinstance(found, dict)
    return found


def test_lists_and_removes(tmp_path: Path, wheels: Path) -> None:
    assert "0 toolchains" in run("toolchains")
    found = made(tmp_path, wheels)
    name = Path(found["path"]).name
    assert found["locked"]["nvidia-cutlass-dsl"] == "4.7.1" and found["size"] > 0
    listed = run("toolchains")
    assert f"{name[:12]}  DSL 4.7.1, CUDA 12, " in listed and "1 toolchain, " in listed
    assert "--prune would remove" in run("toolchains", "--keep", "0")
    assert Path(found["path"]).is_dir()


def test_what_is_not_there_is_told(wheels: Path) -> None:
    for words in (["--remove", "abc"], ["--prune"], ["--find-links", "/no/such/folder"]):
        run("toolchains", *words, status=2)


def test_a_lock_is_read_as_it_was_printed(tmp_path: Path, wheels: Path) -> None:
    lock = run("toolchains", "--lock", tmp_path / "m.yaml", "--find-links", wheels, "--offline")
    (tmp_path / "my.lock").write_text(lock)
    (tmp_path / "locked.yaml").write_text((tmp_path / "m.yaml").read_text().replace('dsl: "4.7.1"', "lock: my.lock"))
    again = run("toolchains", "--lock", tmp_path / "locked.yaml")
    assert again == lock and "nvidia-cutlass-dsl==4.7.1 \\\n    --hash=sha256:" in lock
