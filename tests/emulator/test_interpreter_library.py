"""The kept library: what is damaged, or what another user could have written, is compiled again and never loaded."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.emulator import interpreter_library
from precast.emulator.errors import InterpreterError
from precast.emulator.interpreter_library import compile_library


@pytest.fixture(autouse=True)
def _sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of one line, which compile at once."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "answer.cpp").write_text(
        'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'
    )
    monkeypatch.setattr(interpreter_library, "SOURCES", folder)


def answer(path: Path) -> int:
    return int(ctypes.CDLL(str(path)).answer())


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:500])


def let_others_write(path: Path) -> None:
    path.chmod(0o666)


def link_elsewhere(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def lose_the_checksum(path: Path) -> None:
    path.with_suffix(path.suffix + ".sha256").unlink()


def test_it_is_compiled_once_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = compile_library(tmp_path / "kept")
    assert "(files: 1;" in capfd.readouterr().err
    before = path.stat().st_ino
    assert answer(path) == 42 and compile_library(tmp_path / "kept") == path
    assert path.stat().st_ino == before and capfd.readouterr().err == ""


@pytest.mark.parametrize("harm", [truncate, let_others_write, link_elsewhere, lose_the_checksum])
@pytest.mark.parametrize("suffix", [".so", ".o"])
def test_what_cannot_be_trusted_is_compiled_again(tmp_path: Path, suffix: str, harm: Callable[[Path], None]) -> None:
    path = compile_library(tmp_path / "kept")
    harm(next(path.parent.glob(f"*{suffix}")))
    if suffix == ".o":
        path.unlink()
    assert answer(compile_library(tmp_path / "kept")) == 42
    assert not path.is_symlink() and not path.stat().st_mode & 0o022


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_file_of_another_user_is_compiled_again(tmp_path: Path) -> None:
    path = compile_library(tmp_path / "kept")
    os.chown(path, 1234, -1)
    assert compile_library(tmp_path / "kept").stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    os.chown(tmp_path / "kept", 1234, -1)
    with pytest.raises(InterpreterError, match=r"belongs to another user, .*: remove it, or set XDG_CACHE_HOME"):
        compile_library(tmp_path / "kept")


def test_a_folder_that_others_may_write_is_closed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o777)
    (tmp_path / "kept").chmod(0o777)
    compile_library(tmp_path / "kept")
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o755
