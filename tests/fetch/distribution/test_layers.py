"""The table of layers: what it may say, and what is fetched by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.fetch.distribution.image import Descriptor as D
from precast.fetch.distribution.image import encode_config, encode_manifest, read_layers, read_manifest
from precast.fetch.distribution.layers import Layer, Member, layers_to_json, parse_layers, plan_transfers
from precast.loader.contract.format.index import digest
from precast.loader.errors import FormatError
from precast.publish.push.layering import MOST_LAYERS, layers_of

contents = st.dictionaries(
    st.integers(0, 2**256 - 1).map(lambda n: f"blobs/{n:064x}"), st.binary(max_size=300), max_size=12
).map(lambda blobs: {**blobs, "index.json": b"{}", "ops/a.json": b"[]"})


@given(contents, st.data())
def test_the_files_that_are_wanted_are_in_what_is_fetched(files: dict[str, bytes], data: st.DataObject) -> None:
    layers = layers_of(files)
    by_digest = {layer.sha256: content for layer, content in layers}
    chosen = data.draw(st.sets(st.sampled_from(sorted(files))))
    found: dict[str, bytes] = {}
    for one in plan_transfers([layer for layer, _ in layers], {name: len(files[name]) for name in chosen}):
        part = by_digest[one.source][one.offset : one.offset + one.size]
        assert len(part) == one.size
        found.update({m.name: part[m.offset : m.offset + m.size] for m in one.members})
    assert {name: found[name] for name in chosen} == {name: files[name] for name in chosen}
    assert set(found) == chosen


@given(contents)
def test_a_table_is_read_as_it_was_written(files: dict[str, bytes]) -> None:
    layers = tuple(layer for layer, _ in layers_of(files))
    assert parse_layers(layers_to_json(layers)) == layers
    assert layers_of(dict(reversed(files.items()))) == layers_of(files), "in whatever order they come"


def test_a_new_blob_changes_one_layer() -> None:
    files = {f"blobs/{digest(bytes([n, m]))}": bytes([n, m]) * (1 << 18) for n in range(10) for m in range(10)}
    more = {**files, f"blobs/{digest(b'new')}": b"new"}
    before = {layer.sha256 for layer, _ in layers_of({**files, "index.json": b"1"})}
    after = {layer.sha256 for layer, _ in layers_of({**more, "index.json": b"2"})}
    assert 6 <= len(before) <= MOST_LAYERS
    assert len(after - before) == 2, "that with the index, and that of the blob"


def table(**changes: Any) -> dict[str, Any]:
    layer = {"sha256": "0" * 64, "size": 5000, "files": [["index.json", 512, 10], ["ops/a.json", 1024, 20]]}
    return {"format": "precast-layers", "version": 1, "layers": [{**layer, **changes}]}


WRONG: list[tuple[Any, str]] = [
    ([], "expected an object"),
    ({"format": "x", "version": 1, "layers": []}, "is not 'precast-layers'"),
    ({"format": "precast-layers", "version": 1, "layers": [], "more": 1}, "unknown key"),
    (table(sha256="../../x"), "not a SHA-256 digest"),
    (table(size=-1), "is not between 0 and"),
    (table(size=1 << 60), "is not between 0 and"),
    (table(size=True), "expected int"),
    (table(files=[["index.json", 4995, 10]]), "outside its layer"),
    (table(files=[["index.json", 512, 10], ["ops/a.json", 515, 10]]), "overlaps the previous one"),
    (table(files=[["index.json", -1, 10]]), "expected an offset and a size of at least 0"),
    (table(files=[["index.json", 1.0, 10]]), "expected an offset and a size of at least 0"),
    (table(files=[["index.json", True, 10]]), "expected an offset and a size of at least 0"),
    (table(files=[["index.json", 512]]), "expected a name, an offset and a size"),
    (table(files=[["../index.json", 512, 10]]), "is not a file of a cache"),
    (table(files=[["blobs/" + "0" * 63 + "/", 512, 10]]), "is not a file of a cache"),
    (table(files=[["index.json", 512, 10], ["index.json", 1024, 10]]), "a file occurs twice"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_a_table_that_lies_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        parse_layers(wrong)


def test_a_file_of_another_size_is_not_fetched() -> None:
    layer = Layer(sha256="0" * 64, size=5000, files=(Member("index.json", 512, 10),))
    assert plan_transfers([layer], {"index.json": 11}) == ()


@pytest.mark.parametrize(("size", "whole"), [(2499, False), (2500, True)])
def test_a_layer_is_fetched_whole_where_half_of_it_is_needed(size: int, whole: bool) -> None:
    layer = Layer(sha256="0" * 64, size=5000, files=(Member("index.json", 512, size),))
    (transfer,) = plan_transfers([layer], {"index.json": size})
    assert (transfer.offset, transfer.size) == ((0, layer.size) if whole else (512, size))


def test_a_manifest_and_a_config_that_differ_are_refused() -> None:
    one, other = (layers_of({"index.json": text})[0][0] for text in (b"1", b"2"))
    config = encode_config([one], "x86_64")
    described = D(kind="c", sha256=digest(config), size=len(config))
    assert read_layers(encode_manifest(described, [one], {}), config) == (one,)
    with pytest.raises(FormatError, match="name different layers"):
        read_layers(encode_manifest(described, [other], {}), config)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b"[]", "expected an object"),
        (b'{"schemaVersion": 1}', "not an OCI manifest"),
        (b'{"schemaVersion": 2}', "missing in 'config'"),
        (b'{"schemaVersion": 2, "manifests": []}', "has no image"),
        (b'{"schemaVersion": 2, "config": {"mediaType": "x", "digest": "sha256:0", "size": 1}}', "not a SHA-256"),
        (b'{"schemaVersion": 2, "schemaVersion": 2}', "occurs twice"),
        (b"[" * 100_000, "too deep|not JSON"),
    ],
)
def test_a_manifest_that_is_none_is_refused(manifest: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read_manifest(manifest, "x86_64")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_an_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        read_manifest(data, "x86_64")
