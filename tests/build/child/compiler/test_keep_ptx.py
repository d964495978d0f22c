"""PTX of several kernels of one process: each is kept, and no file is left where the build ran."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from precast.loader.resolve.cache import Cache
from tests.helpers.builds import precast

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[3] / "gpu" / "scripts" / "square_add.py"
MANIFEST = """
version: 1
name: scripts
targets: [sm_90a]
path: .
kernels:
  - {compile: "square_add:kernel_fn", op: script.square_add}
"""


def test_kernels_that_share_their_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``cute.compile`` without options uses the same ones for every kernel of a process."""
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "scripts.yaml").write_text(MANIFEST)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    done = precast(
        tmp_path / "s", "build", tmp_path / "scripts.yaml", "-o", tmp_path / "cache", "-j", 1, "--keep", "ptx"
    )
    assert done.returncode == 0, done.stderr
    assert not list(empty.iterdir())
    cache = Cache(tmp_path / "cache")
    assert all(cache.op(f"script.square_add.{part}").artifacts[0].ptx for part in ("square", "add"))
