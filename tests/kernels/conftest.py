"""Caches of compiled kernels, one at a time in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from precast.loader import api
from tests.helpers.builds import kept_store, succeeded
from tests.helpers.forks.forked_children import ONCE


@pytest.fixture(scope="module", autouse=True)
def _forked(forked_children: None) -> Iterator[None]:
    """The child processes of builds are forked, and compile each kernel once: a second time is for test_families."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ONCE, "1")
        yield


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Make a directory the cache of this process, for one test."""

    def search(path: Path) -> None:
        monkeypatch.setenv("PRECAST_CACHE_PATH", str(path))
        api.caches(refresh=True)

    yield search
    monkeypatch.undo()
    api.caches(refresh=True)


@pytest.fixture
def build(tmp_path: Path, use: Callable[[Path], None], no_torch: str) -> Callable[..., Path]:
    """Build a manifest, given as a value, into the cache of this process, by one worker for each target.

    Kernels of this project need no torch to compile; without it a worker starts in half the time.
    """

    def run(manifest: Mapping[str, Any], *, torch: bool = False) -> Path:
        path, cache = tmp_path / "manifest.yaml", tmp_path / "cache"
        path.write_text(json.dumps({"version": 1, **manifest}))
        more = {} if torch else {"PYTHONPATH": no_torch}
        succeeded("build", path, "-o", cache, "--store", kept_store(), "-j", 1, **more)
        use(cache)
        return cache

    return run
