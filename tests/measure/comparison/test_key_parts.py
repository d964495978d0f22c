"""The part of a key that differs is named, where the store that built both artifacts is at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from precast.build.cache.contents import CacheContents
from precast.build.inputs.inputs import NO_INPUTS, Inputs
from precast.build.store.history import made_of, note_parts
from precast.build.store.key import artifact_key
from precast.build.store.record import Record
from precast.build.store.store import Store
from precast.loader.contract.values import replace as changed
from precast.measure.comparison.diff import difference
from precast.measure.comparison.key_parts import KeyParts, key_changes
from tests.helpers.caches import Native, demo

ONE, OTHER = "0" * 64, "1" * 64


def noted(store: Store, key: str, **parts: object) -> Record:
    record = Record(key=key, products=(), seconds=1.0)
    store.put(key, record)
    note_parts(store.notes, record, parts)
    return record


def test_parts_inputs_and_facts_are_named() -> None:
    read = Inputs.of({"file:search/tiles.json": "a" * 64})
    record = Record(key=ONE, products=(), seconds=1.0, inputs=read, installed=NO_INPUTS, assumed={"sms": 132})
    then = made_of({"source": "aa", "tools": {"ld": "2.40"}}, record)
    now = made_of({"source": "bb", "tools": {"ld": "2.41"}}, replace(record, inputs=NO_INPUTS, assumed={"sms": 78}))
    assert [str(change) for change in key_changes(then, now)] == [
        "file:search/tiles.json: aaaaaaaaaaaa, now nothing", "gpu sms: 132, now 78", "source: aa, now bb",
        "tools.ld: 2.40, now 2.41",
    ]  # fmt: skip


def test_the_parts_of_an_artifacts_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    noted(store, ONE, source="aa")
    parts = KeyParts(store)
    assert parts.of(artifact_key(ONE, "scale", "object"), "scale", "object") == {"source": "aa"}
    assert parts.of(artifact_key(ONE, "scale", "object"), "scale", "cubin") is None
    assert parts.of(OTHER, "scale", "object") is None and not list(key_changes(None, {"source": "aa"}))


def test_a_difference_of_two_caches_names_the_part(tmp_path: Path) -> None:
    store, native = Store(tmp_path / "store"), Native(tmp_path)
    caches = []
    for name, key, source in (("before", ONE, "aa"), ("after", OTHER, "bb")):
        noted(store, key, source=source, host="x86_64")
        writer = demo(native)
        twice = writer.ops["twice"].artifacts[0]
        artifact = changed(twice, key=artifact_key(key, "twice", "object"))
        writer.op("twice", [artifact], keys=())
        caches.append(CacheContents.open(writer.write(tmp_path / name)))
    before, after = caches
    ((_, changes),) = difference(before, after, KeyParts(store)).changed.items()
    assert [change.what for change in changes] == ["key", "key's source"]
    ((_, changes),) = difference(before, after).changed.items()
    assert [change.what for change in changes] == ["key"]
