"""A little library on the path of a test, and the hooks of a test taken back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.attached import PACKAGE, write_library
from tests.helpers.loader_fixtures import cache, native, path, use

__all__ = ["cache", "native", "path", "use"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a library, as on ``sys.path``."""
    folder = write_library(tmp_path / "site", {f"{PACKAGE}/kernels.py": "def compiled(n): return 'compiled'\n"})
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def own_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Finders that a test adds, and modules of the library, are gone after it."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
