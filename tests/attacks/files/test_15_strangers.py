"""A cache folder that belongs to someone else, or that everyone can write: they could run code as this user.

It is refused, unless PRECAST_ALLOW_UNSAFE_CACHES=1 says that this is meant.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from precast.loader.errors import CacheError
from precast.loader.resolve.cache import Cache
from tests.helpers.attacks import Refused
from tests.helpers.caches import gives_away


@pytest.mark.parametrize("place", ["", "ops", "index.json"])
def test_everyone_writes(path: Path, refused: Refused, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (path / place).chmod(0o777)
    refused(path, "can be written by everyone", "PRECAST_ALLOW_UNSAFE_CACHES=1")
    monkeypatch.setenv("PRECAST_ALLOW_UNSAFE_CACHES", "1")
    assert Cache(path).name == "demo"


@pytest.mark.parametrize("place", ["", "ops", "index.json"])
def test_someone_else_owns_it(path: Path, refused: Refused, place: str) -> None:
    if not gives_away():
        pytest.skip("only root gives files away, and only outside of namespaces")
    os.chown(path / place, 4711, -1)
    refused(path, "belongs to another user (uid 4711)")


@pytest.mark.parametrize("value", ["", "0", "true", "yes"])
def test_only_the_exact_word_lifts_it(
    path: Path, refused: Refused, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.chmod(0o777)
    monkeypatch.setenv("PRECAST_ALLOW_UNSAFE_CACHES", value)
    refused(path, "can be written by everyone")


def test_a_folder_of_blobs(path: Path) -> None:
    cache = Cache(path)
    (path / "blobs").chmod(0o777)
    with pytest.raises(CacheError, match="blobs can be written by everyone"):
        cache.read(cache.index.runtimes[0].blob)
