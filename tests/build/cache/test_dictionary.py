"""A build with another cache's dictionary: what did not change keeps its bytes, so that it is not sent again."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.cache.compress import dictionary_of
from precast.fetch.fetcher import fetch
from precast.loader.errors import ConfigError
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import kept_store, manifest, module, precast
from tests.helpers.packed_caches import Built, tree

pytestmark = pytest.mark.usefixtures("without_torch")


def build(folder: Path, name: str, count: int, *options: object) -> Path:
    """A cache of so many variants."""
    module(folder, "mine", "def add(n: int):\n    return compile_add(n)\n")
    file = manifest(folder, {"mine:add": list(range(count))})
    done = precast(kept_store(), "build", file, "-o", folder / name, "-j", 1, *options)
    assert done.returncode == 0, done.stderr
    return folder / name


def blobs(cache: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(cache).items() if name.startswith("blobs/")}


@pytest.mark.slow
def test_what_did_not_change_keeps_its_bytes(tmp_path: Path) -> None:
    old = build(tmp_path, "old", 13)
    assert Cache(old).index.dictionary is not None
    trained = build(tmp_path, "trained", 14)
    kept = build(tmp_path, "kept", 14, "--dictionary", old)
    before = blobs(old)
    assert before.items() <= blobs(kept).items() and len(blobs(kept)) == len(before) + 1
    changed = [name for name in before if blobs(trained).get(name) != before[name]]
    assert len(changed) >= 13, "trained anew, the dictionary and all blobs with it are other bytes"
    fetch(f"file://{old}", tmp_path / "fetched")
    done = fetch(f"file://{kept}", tmp_path / "fetched")
    assert done.reused == sum(map(len, before.values()))
    again = build(tmp_path, "trained", 14, "--dictionary", old)
    assert tree(again) == tree(kept), "a cache that another dictionary made is not up to date"


def test_a_cache_without_a_dictionary_gives_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no dictionary, because it is too small: remove --dictionary"):
        dictionary_of(Built().write(tmp_path / "small"))
