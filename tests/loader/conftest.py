"""Real caches for the loader's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from precast.loader import api
from precast.loader.cache import Cache

from .caches import Native, demo


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture
def path(native: Native, tmp_path: Path) -> Path:
    """The directory of a small cache that a test may damage."""
    return demo(native).write(tmp_path / "demo")


@pytest.fixture
def cache(path: Path) -> Cache:
    return Cache(path)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make directories the caches of this process, for one test."""

    def search(*paths: Path) -> None:
        monkeypatch.setenv("PRECAST_CACHE_PATH", ":".join(map(str, paths)))
        api.caches(refresh=True)

    yield search
    monkeypatch.undo()
    api.caches(refresh=True)
