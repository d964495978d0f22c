"""The folders of other caches are hostile: nothing is followed, opened or read without a limit."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.harvest import found_files
from precast.build.harvest.found_files import DEPTH, META, META_LIMIT, FoundFile, NoMeta, read_meta
from precast.loader.errors import ConfigError

DIGEST = "ab" * 32


def names(folder: Path) -> list[str]:
    return [file.path.relative_to(folder).as_posix() for file in found_files.found_files(folder)]


def test_objects_are_found_in_all_folders_in_order(tmp_path: Path) -> None:
    for name in ("b/2.o", "b/1.so", "a/c/3.o", "a/meta.json", "a/3.lock", "a/.3.o.tmp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert names(tmp_path) == ["a/c/3.o", "b/1.so", "b/2.o"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{DIGEST}/{DIGEST}.o", "digest"),
        (f"{DIGEST}/fwd/{DIGEST}.so", "digest"),
        ("topk_sm90a_cute_dsl/k8.o", "named"),
        (f"topk_sm90a_cute_dsl/{DIGEST}.o", "named"),
        (f"{DIGEST.upper()}/{DIGEST.upper()}.o", "other"),
        ("norm/norm.so", "other"),
    ],
)
def test_a_file_is_recognised_by_its_location(path: str, kind: str) -> None:
    assert FoundFile(path=Path("/cache") / path).kind == kind


def test_links_are_reported_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.o").write_bytes(b"")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "folder.o").symlink_to(outside)
    (cache / "folder").symlink_to(outside)
    (cache / "file.o").symlink_to(outside / "secret.o")
    (cache / "nowhere.o").symlink_to("gone")
    found = list(found_files.found_files(cache))
    assert [(file.path.name, file.is_link) for file in found] == [
        ("file.o", True), ("folder.o", True), ("nowhere.o", True),
    ]  # fmt: skip


def test_only_files_are_found(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.o")
    (tmp_path / "folder.o").mkdir()
    assert names(tmp_path) == []


def test_a_folder_given_by_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "1.o").write_bytes(b"")
    (tmp_path / "link").symlink_to("real")
    (file,) = found_files.found_files(tmp_path / "link")
    assert file.path == tmp_path / "real" / "1.o"


def test_folders_nest_to_a_limit(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * DEPTH)
    deep.mkdir(parents=True)
    (deep / "1.o").write_bytes(b"")
    assert len(names(tmp_path)) == 1
    (deep / "d").mkdir()
    with pytest.raises(ConfigError, match="nests deeper than 16 folders: name the folder of one cache in it"):
        names(tmp_path)


def test_files_are_counted_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_files, "MOST", 2)
    for number in range(2):
        (tmp_path / f"{number}.txt").write_bytes(b"")
    assert names(tmp_path) == []
    (tmp_path / "2.txt").write_bytes(b"")
    with pytest.raises(ConfigError, match="more than 2 files: name the folder of one cache in it"):
        names(tmp_path)


def test_what_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "gone"):
        with pytest.raises(ConfigError, match="is not a folder: name the folder of a cache"):
            names(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed\x1b").mkdir(mode=0)
    with pytest.raises(ConfigError, match=r"closed\\x1b' cannot be read \(Permission denied\): correct"):
        names(tmp_path)


def test_the_facts_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / META).write_text('{"arch": "sm90a", "source_sha256": "0f"}')
    assert read_meta(tmp_path) == {"arch": "sm90a", "source_sha256": "0f"}


@pytest.mark.parametrize(
    "data",
    [
        b'{"arch": "sm90a", "source_sha',
        b'{"arch": "sm90a", "arch": "sm100a"}',
        b'{"arch": 90}',
        b'["arch"]',
        b"\xff",
        b"[" * 60_000,
        json.dumps({"arch": "x" * META_LIMIT}).encode(),
    ],
    ids=["truncated", "twice", "number", "list", "no text", "deep", "large"],
)
def test_malformed_facts_are_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / META).write_bytes(data)
    assert read_meta(tmp_path) == NoMeta("meta.json is malformed")


def test_facts_are_not_read_through_a_link_or_from_a_pipe(tmp_path: Path) -> None:
    assert read_meta(tmp_path) == NoMeta("meta.json cannot be read (No such file or directory)")
    (tmp_path / "real.json").write_text('{"arch": "sm90a"}')
    (tmp_path / META).symlink_to("real.json")
    assert isinstance(read_meta(tmp_path), NoMeta)
    (tmp_path / META).unlink()
    os.mkfifo(tmp_path / META)
    assert read_meta(tmp_path) == NoMeta("meta.json is not a file")


def test_a_huge_file_is_read_to_the_limit(tmp_path: Path) -> None:
    with open(tmp_path / META, "wb") as file:
        file.truncate(1 << 40)  # a hole: reading all of it would take the memory of the machine
    assert read_meta(tmp_path) == NoMeta("meta.json is malformed")


@given(st.binary(max_size=200) | st.recursive(st.text(), lambda v: st.dictionaries(st.text(), v)).map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_any_bytes_are_facts_or_the_reason_why_not(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / META).write_bytes(data)
        meta = read_meta(Path(folder))
    if isinstance(meta, NoMeta):
        assert meta.reason == "meta.json is malformed"
    else:
        assert json.loads(data) == meta
