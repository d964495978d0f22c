"""Fixtures of the tests of the loader and of attach: compiled libraries, a small cache on disk, a session that uses
some caches, and a little library to attach."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from precast.loader import session
from precast.loader.launch.ffi import entry
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machines
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.caches import Native, demo, echo_cache
from tests.helpers.echo import HOPPER

Use = Callable[..., session.Session]


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kernel, Kernel]:
    """The same entry twice: called through the call path, and through tvm_ffi."""
    native = Native(tmp_path_factory.mktemp("native"))
    cache, chosen = echo_cache(native, tmp_path_factory.mktemp("cache") / "echo")
    opener = KernelOpener(lambda device: HOPPER)
    fast = opener.open(cache, "echo", chosen)
    fast(0)
    plain = Kernel("echo", chosen, entry(opener.libraries.load(cache, chosen), chosen.symbol), lambda: HOPPER)
    return fast, plain


@pytest.fixture
def path(native: Native, tmp_path: Path) -> Path:
    """The directory of a small cache that a test may damage."""
    return demo(native).write(tmp_path / "demo")


@pytest.fixture
def cache(path: Path) -> Cache:
    return Cache(path)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """For one test, make a new session on some directories the default one."""
    before = session.default

    def begin(*paths: Path, machines: Machines | None = None, opener: KernelOpener | None = None) -> session.Session:
        monkeypatch.setenv("PRECAST_CACHE_PATH", ":".join(map(str, paths)))
        session.use(session.Session(machines=machines, opener=opener))
        return session.default

    yield begin
    session.use(before)


@pytest.fixture
def plain_finders(monkeypatch: pytest.MonkeyPatch) -> None:
    """No finder of distributions but Python's own.

    A test before may have imported setuptools, whose copy of importlib_metadata adds another and takes the method that
    finds distributions from Python's.
    """
    finders = [f for f in sys.meta_path if f is PathFinder or not hasattr(f, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", finders)
    found = staticmethod(metadata.MetadataPathFinder.find_distributions)
    monkeypatch.setattr(PathFinder, "find_distributions", found, raising=False)


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
