"""Reading caches that lie: a typed error each, and nothing opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import digest
from precast.loader.errors import CacheError, IntegrityError, OpNotFound
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import CacheWriter, Native, artifact, demo, gives_away


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file of a cache and leave the rest as it is."""
    data = json.loads(path.read_bytes())
    change(data)
    path.write_text(json.dumps(data))


def edit_op(root: Path, op: str, change: Callable[[Any], None]) -> None:
    """Change an op's file, and make the root vouch for it, as an attacker who holds the whole cache would."""
    path = root / "ops" / f"{op}.json"
    edit(path, change)
    data = path.read_bytes()
    edit(root / "index.json", lambda index: index["ops"][op].update(sha256=digest(data), size=len(data)))


def opened_below(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is opened from now on."""
    opened: list[object] = []
    real = os.open

    def note(path: Any, *args: Any, **named: Any) -> int:
        opened.append(path)
        return real(path, *args, **named)

    monkeypatch.setattr(os, "open", note)
    return opened


def test_many_blobs_are_read_below_one_open_folder(path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = [artifact.blob for artifact in cache.op("scale").artifacts]
    expected = [cache.read(blob) for blob in blobs]
    before = len(os.listdir("/proc/self/fd"))
    opened = opened_below(monkeypatch)
    with cache.many_blobs(), cache.many_blobs():
        assert [cache.read(blob) for blob in blobs] == expected
    assert opened.count(path) == 2 and len(opened) == 2 * 2 + len(blobs)
    assert len(os.listdir("/proc/self/fd")) == before
    opened.clear()
    assert cache.read(blobs[0]) == expected[0] and opened == [path, "blobs", blobs[0].sha256]


def test_another_thread_does_not_use_the_open_folder(path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be closed while that thread reads."""
    blob = cache.op("scale").artifacts[0].blob
    with cache.many_blobs():
        opened = opened_below(monkeypatch)
        thread = threading.Thread(target=cache.read, args=(blob,))
        thread.start()
        thread.join()
        assert opened == [path, "blobs", blob.sha256]


def test_a_folder_of_blobs_that_is_not_safe_is_an_error_of_each_blob(path: Path, cache: Cache) -> None:
    blob = cache.op("scale").artifacts[0].blob
    (path / "blobs").chmod(0o777)
    with cache.many_blobs(), pytest.raises(CacheError, match="can be written by everyone"):
        cache.read(blob)
    (path / "blobs").rename(path / "moved")
    with cache.many_blobs(), pytest.raises(IntegrityError, match="is missing"):
        cache.read(blob)


@pytest.mark.parametrize("encoding", ["raw", "zstd", "zstd+dictionary"])
def test_a_blob_comes_back(tmp_path: Path, encoding: str) -> None:
    writer = CacheWriter()
    writer.use_dictionary(b"words that many blobs have in common " * 40)
    blobs = {data: writer.keep(data, encoding) for data in (b"", b"words that many blobs have" * 9, os.urandom(9999))}
    cache = Cache(writer.write(tmp_path / "cache"))
    assert all(cache.read(blob) == data for data, blob in blobs.items())


def test_another_blob_under_its_name(path: Path, cache: Cache) -> None:
    one, *others = (a.blob for a in cache.op("scale").artifacts)
    other = next(blob for blob in others if blob.sha256 != one.sha256)
    (path / "blobs" / one.sha256).write_bytes((path / "blobs" / other.sha256).read_bytes())
    with pytest.raises(IntegrityError, match="damaged"):
        cache.read(one)


def test_the_digest_is_of_the_decoded_bytes(tmp_path: Path) -> None:
    """A frame of the right stored and decoded size, with other bytes in it."""
    writer = CacheWriter()
    blob = writer.keep(b"a" * 100, "raw")
    writer.blobs[blob.sha256] = b"b" * 100
    with pytest.raises(IntegrityError, match="its content is not what the index promises"):
        Cache(writer.write(tmp_path / "cache")).read(blob)


@pytest.mark.parametrize("declared", [True, False])
def test_a_bomb_is_not_decoded(tmp_path: Path, declared: bool) -> None:
    """A gigabyte in a few bytes, whether its frame owns up to that or says nothing."""
    packer = zstandard.ZstdCompressor(write_content_size=declared)
    stream = packer.compressobj(size=1 << 30) if declared else packer.compressobj()
    stored = b"".join(stream.compress(bytes(1 << 24)) for _ in range(64)) + stream.flush()
    assert len(stored) < 1 << 17
    blob = Blob(sha256="0" * 64, size=100, stored=len(stored), encoding="zstd")
    writer = CacheWriter(blobs={blob.sha256: stored})
    with pytest.raises(IntegrityError, match="does not decode to the size"):
        Cache(writer.write(tmp_path / "cache")).read(blob)


def test_a_frame_that_lies_about_its_size(tmp_path: Path) -> None:
    """The size in the frame's header agrees with the index, and what follows is longer."""
    stored = bytearray(zstandard.ZstdCompressor().compress(bytes(200)))
    assert stored[5] == 200, "the one byte of the content size"
    stored[5] = 100
    blob = Blob(sha256=digest(bytes(100)), size=100, stored=len(stored), encoding="zstd")
    writer = CacheWriter(blobs={blob.sha256: bytes(stored)})
    with pytest.raises(IntegrityError, match="not readable as zstd"):
        Cache(writer.write(tmp_path / "cache")).read(blob)


def test_more_after_the_frame(path: Path, cache: Cache) -> None:
    blob = cache.op("scale").artifacts[0].blob
    longer = Blob(sha256=blob.sha256, size=blob.size, stored=blob.stored + 4, encoding=blob.encoding)
    with (path / "blobs" / blob.sha256).open("ab") as file:
        file.write(b"more")
    for wrong in (blob, longer):
        with pytest.raises(IntegrityError):
            cache.read(wrong)


def test_a_dictionary_that_is_not_there(tmp_path: Path) -> None:
    writer = CacheWriter()
    writer.use_dictionary(b"words " * 100)
    blob = writer.keep(b"words " * 50, "zstd+dictionary")
    writer.dictionary = None
    with pytest.raises(IntegrityError, match="needs a dictionary"):
        Cache(writer.write(tmp_path / "cache")).read(blob)


def test_every_truncation_of_a_blob(path: Path, cache: Cache) -> None:
    blob = cache.index.runtimes[0].blob
    file = path / "blobs" / blob.sha256
    whole = file.read_bytes()
    for length in range(0, len(whole), 37):
        file.write_bytes(whole[:length])
        with pytest.raises(IntegrityError):
            cache.read(blob)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_is_an_error(path: Path, data: st.DataObject) -> None:
    """Anywhere: a typed error, or the very bytes that the index promises. A list of artifacts never survives it."""
    files = sorted(p for p in path.rglob("*") if p.is_file())
    file = data.draw(st.sampled_from(files))
    whole = file.read_bytes()
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    file.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
    try:
        cache = Cache(path)
        for op in cache.index.ops:
            for listed in cache.op(op).artifacts:
                assert digest(cache.read(listed.blob)) == listed.blob.sha256
        for runtime in cache.index.runtimes:
            assert digest(cache.read(runtime.blob)) == runtime.blob.sha256
        sound = True
    except loader.PrecastError:
        sound = False
    finally:
        file.write_bytes(whole)
    assert not sound or file.parent.name != "ops"


def test_an_op_file_that_the_root_does_not_vouch_for(path: Path) -> None:
    edit(path / "ops" / "scale.json", lambda op: op.update(doc="x"))
    with pytest.raises(IntegrityError, match=r"scale\.json"):
        Cache(path).op("scale")


def test_an_op_file_that_is_not_parsed_before_its_digest_is_right(path: Path) -> None:
    file = path / "ops" / "scale.json"
    file.write_bytes(b"[" * len(file.read_bytes()))
    with pytest.raises(IntegrityError, match="its digest"):
        Cache(path).op("scale")


def test_a_key_twice(path: Path) -> None:
    text = (path / "index.json").read_text()
    (path / "index.json").write_text(text.replace('"name": "demo"', '"name": "demo", "name": "demo"'))
    with pytest.raises(CacheError, match="the key occurs twice"):
        Cache(path)


def test_an_artifact_twice(path: Path) -> None:
    edit_op(path, "twice", lambda op: op["artifacts"].append(op["artifacts"][0]))
    edit(path / "index.json", lambda index: index["ops"]["twice"].update(artifacts=2))
    with pytest.raises(CacheError, match=r"the key occurs twice.*artifacts\[1\]\.key"):
        Cache(path).op("twice")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b", "scale\0", "Scale", ".", "", "a..b"])
def test_an_op_whose_name_is_a_path(path: Path, name: str) -> None:
    edit(path / "index.json", lambda index: index["ops"].update({name: index["ops"]["scale"]}))
    with pytest.raises(CacheError, match="not the name of an op"):
        Cache(path)


def test_a_digest_that_is_a_path(path: Path) -> None:
    edit_op(path, "twice", lambda op: op["artifacts"][0]["blob"].update(sha256="../" * 20 + "etc/"))
    with pytest.raises(loader.FormatError, match=r"artifacts\[0\]\.blob\.sha256"):
        _ = Cache(path).op("twice").artifacts


@pytest.mark.parametrize(("version", "words"), [(5, "upgrade precast-loader"), (0, "rebuild the cache")])
def test_another_version(path: Path, version: int, words: str) -> None:
    edit(path / "index.json", lambda index: index.update(version=version))
    with pytest.raises(CacheError, match=words):
        Cache(path)


@pytest.mark.parametrize("place", ["index.json", "ops", "ops/scale.json", "blobs"])
def test_links_are_not_followed(path: Path, tmp_path: Path, place: str) -> None:
    """Even to what is right: a link leads wherever its owner wants at the next look."""
    (path / place).rename(tmp_path / "moved")
    (path / place).symlink_to(tmp_path / "moved")
    with pytest.raises(CacheError, match="no links"):
        cache = Cache(path)
        cache.read(cache.op("scale").artifacts[0].blob)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file(path: Path, make: Callable[[Path], None]) -> None:
    (path / "index.json").unlink()
    make(path / "index.json")
    with pytest.raises(CacheError, match="not a regular file"):
        Cache(path)


def test_a_directory_that_everyone_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o777)
    with pytest.raises(CacheError, match="can be written by everyone"):
        Cache(path)
    monkeypatch.setenv("PRECAST_ALLOW_UNSAFE_CACHES", "1")
    assert Cache(path).name == "demo"


def test_a_directory_of_someone_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if path.stat().st_uid == 0:
        if not gives_away():
            pytest.skip("root gives nothing away here: run outside of namespaces")
        os.chown(path, 4711, -1)
    with pytest.raises(CacheError, match="belongs to another user"):
        Cache(path)


def test_a_file_that_is_gone(path: Path, cache: Cache) -> None:
    blob = cache.op("scale").artifacts[0].blob
    (path / "blobs" / blob.sha256).unlink()
    with pytest.raises(IntegrityError, match=r"missing.*restart"):
        cache.read(blob)
    with pytest.raises(OpNotFound, match="did you mean 'scale'"):
        cache.op("skale")
    with pytest.raises(CacheError, match=r"no index\.json"):
        Cache(path / "blobs")
    with pytest.raises(CacheError, match="not a folder that can be read"):
        Cache(path / "nowhere")


def test_one_bad_artifact_leaves_the_others(native: Native, tmp_path: Path) -> None:
    path = demo(native).write(tmp_path / "cache")
    edit_op(path, "scale", lambda op: op["artifacts"][3].update(symbol=7))
    cache = Cache(path)
    assert cache.op("scale").artifact(2).symbol == "__tvm_ffi_scale"
    with pytest.raises(
        loader.FormatError, match=r"expected str, got int in 'ops/scale\.json:\.artifacts\[3\]\.symbol'"
    ):
        cache.op("scale").artifact(3)


def test_helpers_make_distinct_keys(tmp_path: Path) -> None:
    blob = CacheWriter().keep(b"x")
    assert artifact(blob, {"dtype": "float32"}).key != artifact(blob, {"dtype": "float16"}).key


def test_decoding_does_not_import_what_it_does_not_need(path: Path) -> None:
    """The package zstandard imports platform. Who wants it later has it whole."""
    code = (
        "import sys\nfrom precast.loader.resolve.cache import Cache\n"
        f"cache = Cache({str(path)!r})\n"
        "read = cache.read(cache.op('scale').artifacts[0].blob)\n"
        "assert 'zstandard' not in sys.modules and 'platform' not in sys.modules, sorted(sys.modules)\n"
        "import zstandard\n"
        "packed = zstandard.ZstdCompressor().compress(read)\n"
        "assert zstandard.ZstdDecompressor().decompress(packed) == read\n"
        "assert Cache(cache.path).read(cache.op('scale').artifacts[0].blob) == read\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("difference", [1, -1])
def test_an_ops_file_lists_as_many_artifacts_as_the_index_says(path: Path, difference: int) -> None:
    index = json.loads((path / "index.json").read_text())
    index["ops"]["scale"]["artifacts"] += difference
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(IntegrityError, match=r"scale\.json is damaged: it lists \d+ artifacts, not \d+"):
        Cache(path).op("scale")


def test_a_prompt_shows_a_cache_with_its_name_and_folder(cache: Cache) -> None:
    assert repr(cache) == f"<Cache {cache.name!r} at {str(cache.path)!r}, {len(cache.index.ops)} ops>"


def test_a_cache_that_others_may_write_is_refused_and_one_that_a_group_may_is_not(path: Path) -> None:
    path.chmod(0o775)
    assert Cache(path).name == "demo"
    path.chmod(0o757)
    with pytest.raises(CacheError):
        Cache(path)
