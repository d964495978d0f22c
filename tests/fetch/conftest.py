"""Caches that are served in every way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.web.many import many
from tests.helpers.web.registry import registry
from tests.helpers.web.served import KINDS, Served, serve_as


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, where there is one: each fetch syncs its files. It is also the home of processes that start
    meanwhile, and one that ends later may write there while it is removed."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials and no proxies of the machine."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DOCKER_CONFIG", "HF_TOKEN", "HF_HOME", "HF_TOKEN_PATH", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return many(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The same cache with three other blobs."""
    return many(tmp_path / "new", new=3)


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The host of a real registry."""
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture(params=KINDS)
def served(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Every way to serve a cache. An image needs a real registry; without one these tests are skipped."""
    host = request.getfixturevalue("upstream") if request.param == "image" else ""
    with serve_as(request.param, tmp_path / "served", host) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.server.url)
        yield found
