"""A fetch from a real registry, from a double of the hub, and from web servers: whole, in part, again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from precast.fetch.fetcher import Fetched, fetch
from precast.loader.contract.format.index import digest
from precast.loader.errors import ConfigError, FetchError, IntegrityError
from precast.loader.resolve.cache import Cache
from tests.helpers.attach.companions import cache_with
from tests.helpers.packed_caches import tree
from tests.helpers.web.many import QUICK, many
from tests.helpers.web.served import Served


def get(served: Served, path: Path, **more: object) -> Fetched:
    return fetch(served.reference, path, patience=QUICK, **more)  # type: ignore[arg-type]


def test_what_is_fetched_is_what_was_pushed(served: Served, old: Path, tmp_path: Path) -> None:
    served.put(old)
    done = get(served, tmp_path / "deeper" / "cache")
    assert tree(tmp_path / "deeper" / "cache") == tree(old)
    assert (done.name, done.digest, done.artifacts, done.changed) == ("many", Cache(old).digest, 40, True)
    assert done.reused == 0 and done.received >= sum(p.stat().st_size for p in (old / "blobs").iterdir())
    assert [p.name for p in (tmp_path / "deeper").iterdir()] == ["cache"], "nothing else is left"


def test_files_of_other_compilers_come_along(served: Served, tmp_path: Path) -> None:
    """The index names a blob that names them."""
    cache = cache_with(tmp_path / "old")
    served.put(cache.path)
    done = get(served, tmp_path / "cache")
    assert tree(tmp_path / "cache") == tree(cache.path) and len(tree(cache.path)) == 5 and done.reused == 0


def test_the_exact_reference_and_the_pin_name_what_was_read(
    served: Served, old: Path, new: Path, tmp_path: Path
) -> None:
    served.put(old)
    done = get(served, tmp_path / "cache")
    assert done.pin == f"many={digest((old / 'index.json').read_bytes())}"
    served.put(new)
    if served.kind in ("image", "hub"):
        again = fetch(done.reference, tmp_path / "again", patience=QUICK)
        assert again.reference == done.reference and tree(tmp_path / "again") == tree(old)
    with pytest.raises(IntegrityError, match="it was replaced, or is another cache"):
        get(served, tmp_path / "wanted", digest=done.digest)
    assert not (tmp_path / "wanted").exists()


def test_only_what_is_new_is_fetched(served: Served, old: Path, new: Path, tmp_path: Path) -> None:
    served.put(old)
    first = get(served, tmp_path / "cache")
    served.put(new)
    done = get(served, tmp_path / "cache")
    assert tree(tmp_path / "cache") == tree(new)
    blobs = sum(p.stat().st_size for p in (new / "blobs").iterdir())
    assert done.reused > 0.8 * blobs
    assert done.received < first.received
    files = tree(new)
    if served.kind == "files":
        fresh = {name for name in files if files[name] != tree(old).get(name)}
        assert done.received == sum(len(files[name]) for name in fresh - {"index.json"})


def test_what_another_cache_has_is_not_fetched(served: Served, old: Path, tmp_path: Path) -> None:
    served.put(old)
    done = get(served, tmp_path / "cache", reuse=[tmp_path / "nowhere", old])
    assert done.reused == sum(p.stat().st_size for p in (old / "blobs").iterdir())
    assert tree(tmp_path / "cache") == tree(old)


def test_blobs_of_another_dictionary_are_not_taken(served: Served, old: Path, tmp_path: Path) -> None:
    """A file of the right name and size, but compressed in another way, or damaged: its content decides."""
    served.put(old)
    wrong = many(tmp_path / "wrong")
    for blob in (wrong / "blobs").iterdir():
        blob.write_bytes(bytes(len(blob.read_bytes())))
    done = get(served, tmp_path / "cache", reuse=[wrong])
    assert done.reused == 0 and tree(tmp_path / "cache") == tree(old)


def test_without_its_dictionary_the_rest_of_a_cache_is_still_taken(served: Served, old: Path, tmp_path: Path) -> None:
    """As after a fetch that was interrupted: the dictionary is fetched first, since nothing can be read without it."""
    served.put(old)
    part = many(tmp_path / "part")
    words = Cache(old).index.dictionary
    assert words is not None
    (part / "blobs" / words.sha256).unlink()
    done = get(served, tmp_path / "cache", reuse=[part])
    assert done.reused == sum(p.stat().st_size for p in (part / "blobs").iterdir())
    assert tree(tmp_path / "cache") == tree(old)


def test_the_same_again_asks_for_no_blob(served: Served, old: Path, tmp_path: Path) -> None:
    served.put(old)
    done = get(served, tmp_path / "cache")
    before = (tmp_path / "cache").stat().st_ino
    served.server.requests.clear()
    again = get(served, tmp_path / "cache")
    assert not again.changed and again.digest == done.digest
    assert (tmp_path / "cache").stat().st_ino == before
    if served.kind != "image":
        assert served.server.asked("/blobs/") + served.server.asked("/layers/") <= 1, "the index at most"
    served.server.requests.clear()
    assert not get(served, tmp_path / "cache", digest=done.digest).changed
    assert served.server.requests == [], "with a digest, nothing is asked"


def test_a_damaged_cache_is_mended(served: Served, old: Path, tmp_path: Path) -> None:
    served.put(old)
    done = get(served, tmp_path / "cache")
    blob = max((tmp_path / "cache" / "blobs").iterdir())
    blob.write_bytes(b"x" * len(blob.read_bytes()))
    assert get(served, tmp_path / "cache", digest=done.digest).changed
    assert tree(tmp_path / "cache") == tree(old)


def test_others_may_read_it_whatever_the_mask(served: Served, old: Path, tmp_path: Path) -> None:
    served.put(old)
    mask = os.umask(0o077)
    try:
        get(served, tmp_path / "cache")
    finally:
        os.umask(mask)
    for path in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_what_is_not_there_is_said(served: Served, tmp_path: Path) -> None:
    with pytest.raises(FetchError) as caught:
        get(served, tmp_path / "cache")
    assert "check" in str(caught.value) or "log in" in str(caught.value)
    assert list(tmp_path.glob("cache*")) == []


def test_only_a_cache_is_replaced(served: Served, old: Path, tmp_path: Path) -> None:
    served.put(old)
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "main.c").write_text("int main;")
    with pytest.raises(ConfigError, match="is not a cache and not empty"):
        get(served, tmp_path / "sources")
    (tmp_path / "link").symlink_to(old)
    with pytest.raises(ConfigError, match="is not a folder"):
        get(served, tmp_path / "link")
    assert served.server.requests == [] or served.kind == "image"
    assert (tmp_path / "sources" / "main.c").read_text() == "int main;"


def test_a_folder_of_this_machine(old: Path, tmp_path: Path) -> None:
    from precast.publish.push.push import push_cache

    assert fetch(f"file://{old}", tmp_path / "one").received > 0
    pushed = push_cache(old, f"file://{tmp_path / 'shelf'}")
    done = fetch(f"file://{tmp_path / 'shelf'}", tmp_path / "two", digest=pushed.digest)
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(old)
    assert done.digest == pushed.digest
    with pytest.raises(FetchError, match="is not a folder: check the path"):
        fetch(f"file://{tmp_path / 'nowhere'}", tmp_path / "three")
