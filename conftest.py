"""The loader's examples use a cache: a small real one, for as long as they run."""

from __future__ import annotations

import runpy
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background of a shell: tests interrupt processes
    signal.signal(signal.SIGINT, signal.default_int_handler)

CACHES = Path(__file__).parent / "tests" / "helpers" / "caches.py"


@pytest.fixture(scope="session")
def _example_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from types import SimpleNamespace

    writer = SimpleNamespace(**runpy.run_path(str(CACHES), run_name="tests.helpers.caches"))
    cache: Path = writer.demo(writer.Native(tmp_path_factory.mktemp("native"))).write(
        tmp_path_factory.mktemp("caches") / "demo"
    )
    return cache


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not (isinstance(request.node, pytest.DoctestItem) and request.node.name.startswith("precast.loader")):
        yield
        return
    from precast.loader import session

    monkeypatch.setenv("PRECAST_CACHE_PATH", str(request.getfixturevalue("_example_cache")))
    before = session.use(session.Session())
    yield
    session.use(before)
