"""``loader.attach`` is the door to precast-attach: its names where that is installed, one error where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader

ADVICE = "precast-attach is not installed: pip install precast-attach"


def without_attach(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A Python that finds no ``precast.attach``."""
    (folder / "sitecustomize.py").write_text("import sys; sys.modules['precast.attach'] = None\n")
    environment = ["env", "-u", "PRECAST_ATTACH", f"PYTHONPATH={folder}", sys.executable]
    return subprocess.run([*environment, *words], capture_output=True, text=True, check=False)


def test_the_door_has_the_names_of_attach() -> None:
    attach = pytest.importorskip("precast.attach")
    from precast.loader.attach.libraries.vllm import prebuilt_executor

    assert loader.attach.__all__ == attach.__all__
    assert all(getattr(loader.attach, name) is getattr(attach, name) for name in attach.__all__)
    door: Any = loader.attach  # a module that can be called
    assert door([]) is attach.attached()
    assert prebuilt_executor.__module__ == "precast.attach.libraries.vllm"


def test_without_attach_a_program_gets_an_import_error_that_says_what_to_install(tmp_path: Path) -> None:
    script = """
from precast import loader
for door in (lambda: loader.attach, lambda: __import__("precast.loader.attach.libraries.vllm")):
    try:
        door()
    except ImportError as error:
        print(type(error).__name__, error)
"""
    done = without_attach(tmp_path, "-c", script)
    assert done.stdout.splitlines() == [f"AttachNotInstalled {ADVICE}"] * 2, done.stderr


def test_without_attach_a_star_imports_the_rest(tmp_path: Path) -> None:
    done = without_attach(tmp_path, "-c", "from precast.loader import *; print(get.__name__)")
    assert (done.stdout, done.stderr) == ("get\n", "")


def test_without_attach_the_command_prints_one_line(tmp_path: Path) -> None:
    done = without_attach(tmp_path, "-m", "precast.loader.attach", "server.py")
    assert done.returncode and ADVICE in done.stderr and done.stderr.count("\n") == 1
