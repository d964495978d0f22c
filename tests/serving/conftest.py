"""What the tests of examples/serving share: its modules can be imported, and its double has caches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.caches import Native, demo

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two caches with the same ops, whose kernels are others."""
    native, folder = Native(tmp_path_factory.mktemp("native")), tmp_path_factory.mktemp("caches")
    old, new = (demo(native, offset=offset).write(folder / name) for name, offset in (("old", 0), ("new", 40)))
    return old, new
