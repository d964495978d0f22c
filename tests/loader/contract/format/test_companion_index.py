"""The index of companions: names that stay below a folder, sizes that are bounded, and the same bytes again."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precast.loader.contract.format import companion_index
from precast.loader.contract.format.artifact import BLOB_LIMIT
from precast.loader.contract.format.companion_index import FILE_PATH, FOLDER, CompanionIndex
from precast.loader.errors import FormatError, PrecastError

BLOB = {"sha256": "0" * 64, "size": 3, "stored": 3, "encoding": "raw"}
FILE = {"path": "a/b.so", "blobs": [BLOB]}
TRITON = {"name": "triton", "facts": {"triton": "3.8.0"}, "files": [FILE, {**FILE, "path": "c", "relocations": 1}]}
GOOD = {"format": "precast-companions", "version": 1, "command": ["vllm"], "companions": [TRITON]}


def read(*paths: str, **changes: Any) -> CompanionIndex:
    """What the reader makes of an index with files of these paths, or with other changes."""
    files = [{**FILE, "path": path} for path in paths]
    companions = [{**TRITON, "files": files}] if paths else [TRITON]
    return CompanionIndex.decode(json.dumps({**GOOD, "companions": companions, **changes}).encode())


def test_an_index_is_read_and_written_with_the_same_bytes() -> None:
    index = read()
    assert CompanionIndex.decode(index.encode()) == index
    assert [file.path for file in index.companions[0].files] == ["a/b.so", "c"]
    assert [blob.sha256 for blob in index.blobs] == ["0" * 64]


def test_the_size_of_a_relocated_file_depends_on_the_folder() -> None:
    plain, relocated = read().companions[0].files
    assert plain.size(b"/x") == 3 and relocated.size(b"/x") == 3 + 2 - len(FOLDER)


PATHS = (
    "", "/etc/passwd", "..", "../a", "a/..", "a/../b", ".", "./a", "a/.", "a//b", "a/", "a\\b", "a\n", "a\0", "é",
    "a" * 256, "/".join("a" * 33), "/".join(["a" * 250] * 5), "\x7f", "a\t",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match="is not a plain path below a folder"):
        read(path)


@pytest.mark.parametrize("path", ["a", "...", "a..b/.c", "tmp @+=~,[1](2)", "/".join("a" * 32), "a" * 255])
def test_names_that_compilers_use_are_plain(path: str) -> None:
    assert read(path).companions[0].files[0].path == path


@given(st.text(max_size=40))
def test_no_admitted_path_leaves_its_folder(path: str) -> None:
    if FILE_PATH.admits(path):
        assert not path.startswith("/") and not {"", ".", ".."} & set(path.split("/")) and path.isascii()


@pytest.mark.parametrize("paths", [("a", "a"), ("a/B", "a/b"), ("a", "a/b"), ("x/y/z", "X/y")])
def test_two_files_at_one_path_are_refused(paths: tuple[str, str]) -> None:
    with pytest.raises(FormatError, match="is the path of two files, or of a file and a folder"):
        read(*paths)


def test_a_companion_is_listed_once() -> None:
    with pytest.raises(FormatError, match="one companion is listed twice"):
        read(companions=[TRITON, TRITON])


def test_bytes_and_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most = companion_index.MOST_BYTES // BLOB_LIMIT
    large = {"path": "a", "blobs": [{**BLOB, "size": BLOB_LIMIT}] * most}
    more = {"path": "b", "blobs": [BLOB]}
    with pytest.raises(FormatError, match="bytes"):
        read(companions=[{**TRITON, "files": [large, more]}])
    read(companions=[{**TRITON, "files": [large]}])
    monkeypatch.setattr(companion_index, "MOST_FILES", 1)
    with pytest.raises(FormatError, match="more than"):
        read(companions=[{**TRITON, "files": [FILE]}, {**TRITON, "name": "cuda", "files": [FILE]}])


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good index in which one value is another one, or is gone."""
    data: Any = copy.deepcopy(GOOD)
    inner = data
    while True:
        keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
        key: Any = draw(st.sampled_from(list(keys)))
        value = inner[key]
        if not isinstance(value, (dict, list)) or not value or draw(st.booleans()):
            break
        inner = value
    if draw(st.booleans()):
        inner[key] = draw(json_values)
    else:
        del inner[key]
    return json.dumps(data).encode()


@settings(max_examples=200, deadline=None)
@given(damaged() | st.binary(max_size=60))
def test_whatever_the_bytes_a_value_or_a_typed_error(data: bytes) -> None:
    try:
        index = CompanionIndex.decode(data)
    except PrecastError:
        return
    assert CompanionIndex.decode(index.encode()).encode() == index.encode()
