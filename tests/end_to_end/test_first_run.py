"""A first run: an empty folder, a home without anything, and the commands of the README as a terminal starts them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.builds import command


@pytest.mark.slow
def test_every_command_succeeds_and_names_the_next(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)}

    def typed(line: str) -> subprocess.CompletedProcess[str]:
        words = command(*line.split())
        return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=False)

    new = typed("new scaled")
    assert new.returncode == 0 and "\nnext:\n  precast plan scaled.yaml\n" in new.stdout
    built = typed("build scaled.yaml -o cache -t sm_90a")
    assert built.returncode == 0 and "warning:" not in built.stderr, built.stderr
    assert (home / ".cache" / "precast").is_dir() and {path.name for path in home.iterdir()} == {".cache"}
    packed = typed("wheel cache -o dist")
    assert packed.returncode == 0 and "\nnext, where the kernels run: pip install " in f"\n{packed.stderr}"
    assert "dist/*.whl && python -m precast.loader doctor" in packed.stderr
    assert "next, " not in typed("wheel cache -o dist").stderr, "the next step is named once"
    verified = typed("verify cache")
    assert verified.returncode == 0 or "add --emulate, which needs no GPU" in verified.stderr, verified.stderr
