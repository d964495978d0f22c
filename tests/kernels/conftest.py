"""Caches of compiled kernels, one at a time in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from precast.loader import api


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Make a directory the cache of this process, for one test."""

    def search(path: Path) -> None:
        monkeypatch.setenv("PRECAST_CACHE_PATH", str(path))
        api.caches(refresh=True)

    yield search
    monkeypatch.undo()
    api.caches(refresh=True)
