"""The examples of the loader and of attach use a cache: a small real one, for as long as they run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background of a shell: tests interrupt processes
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def _example_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent)  # pytest may run the examples alone, and from anywhere
        from tests.helpers.caches import Native, demo

    return demo(Native(tmp_path_factory.mktemp("native"))).write(tmp_path_factory.mktemp("caches") / "demo")


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    of_runtime = request.node.name.startswith(("precast.loader", "precast.fetch", "precast.attach"))
    if not (isinstance(request.node, pytest.DoctestItem) and of_runtime):
        yield
        return
    from precast.loader import session

    monkeypatch.setenv("PRECAST_CACHE_PATH", str(request.getfixturevalue("_example_cache")))
    before = session.use(session.Session())
    yield
    session.use(before)
