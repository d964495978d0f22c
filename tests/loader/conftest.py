"""Real caches for the loader's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from precast.loader import api
from precast.loader.launch import library
from precast.loader.launch.ffi import entry
from precast.loader.launch.kernel import Kernel, open_kernel
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, demo, echo_cache
from tests.helpers.echo import HOPPER


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kernel, Kernel]]:
    """The same entry twice: called through the call path, and through tvm_ffi."""
    native = Native(tmp_path_factory.mktemp("native"))
    cache, chosen = echo_cache(native, tmp_path_factory.mktemp("cache") / "echo")
    fast = open_kernel(cache, "echo", chosen)
    fast._machine = lambda: HOPPER
    fast(0)
    plain = Kernel("echo", chosen, entry(library.load(cache, chosen), chosen.symbol), lambda: HOPPER)
    yield fast, plain


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
