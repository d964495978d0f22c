"""Imports from source alone: what a process compiled for its forks is used for the same bytes, and for no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

IMPORTING = """
import sys
from pathlib import Path
from precast.build.child.source_only import SourceOnly

file, change, optimized = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, str(file.parent))
source_only = SourceOnly()
source_only.install()
if optimized:
    source_only.hold([str(file)])
if change:
    stat = file.stat()
    file.write_text(change)
    import os
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
compiled = []
sys.addaudithook(lambda event, arguments: event == "compile" and compiled.append(arguments[1]))
import held
print(held.value, compiled.count(str(file)), str(file) in source_only.files)
"""


def imported(file: Path, change: str = "", *, held: bool = True) -> str:
    command = [sys.executable, "-c", IMPORTING, str(file), change, "held" if held else ""]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_is_held_is_compiled_once(tmp_path: Path) -> None:
    file = tmp_path / "held.py"
    file.write_text("value = 1\n")
    assert imported(file, held=False) == "1 1 True"
    assert imported(file) == "1 0 True"
    assert not (tmp_path / "__pycache__").exists()


def test_another_source_of_the_same_size_and_time_is_compiled(tmp_path: Path) -> None:
    file = tmp_path / "held.py"
    file.write_text("value = 1\n")
    assert imported(file, "value = 2\n") == "2 1 True"


@pytest.mark.parametrize("kind", ["syntax", "folder", "pipe", "absent", "link"])
def test_what_cannot_be_held_is_left_to_whoever_imports_it(tmp_path: Path, kind: str) -> None:
    from precast.build.child.source_only import SourceOnly

    file = tmp_path / "held.py"
    if kind == "syntax":
        file.write_text("def\n")
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/dev/zero")
    source_only = SourceOnly()
    source_only.hold([str(file), str(file)])
    assert source_only.files == (str(file),)
