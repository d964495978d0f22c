"""Records that a store holds under a key which is not theirs, or that are damaged: never used, and not in silence."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.gpu.profile import profile_of
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import NO_INPUTS, Inputs
from precast.build.inputs.roots import Roots
from precast.build.store.key import artifact_key, record_key
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record
from precast.build.store.requested_facts import (
    RequestedFacts,
    decode_requested_facts,
    encode_requested_facts,
)
from precast.build.store.store import Store, compressed
from precast.loader.contract.format.index import digest
from precast.loader.contract.format.target import Target
from tests.helpers.builds import precast, tree
from tests.helpers.builds import write_package as write

KEY = "ab" * 32
H200 = profile_of(Target.parse("sm_90a"))


def variables(**values: str) -> Inputs:
    """What was made of files with this content."""
    return Inputs.of({f"file:~/{name}": digest(value.encode()) for name, value in values.items()})


class Warned:
    """A store, and what it warned of."""

    def __init__(self, path: Path, **values: str) -> None:
        self.texts: list[str] = []
        self.store = Store(path, self.texts.append)
        home = path / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for name, value in values.items():
            (home / name).write_text(value)
        self.lookup = Lookup(self.store, InputAnswers(Roots([], [], str(home))))

    def get(self) -> Record | None:
        return self.lookup.find(KEY, H200)


def record(inputs: Inputs | None = None, installed: Inputs = NO_INPUTS, key: str = "") -> Record:
    inputs = inputs or variables(TILE="1")
    key = key or record_key(KEY, {}, inputs.answers)
    return Record(key=key, products=(), seconds=1.0, inputs=inputs, installed=installed)


def test_a_record_is_used_while_what_it_was_made_of_is_as_it_was(tmp_path: Path) -> None:
    warned = Warned(tmp_path, TILE="1", OTHER="1")
    warned.store.put(KEY, record(installed=variables(OTHER="1")))
    assert warned.get() is not None
    for values in ({"TILE": "2", "OTHER": "1"}, {"TILE": "1"}):
        other = Warned(tmp_path, **values)
        assert other.get() is None
        assert other.lookup.record_key(KEY, H200) is None
        assert other.texts == []  # it is another state, and nothing is wrong


def test_the_last_names_are_kept_where_the_list_is_full(tmp_path: Path) -> None:
    """A kernel with other inputs in every build has a list of them that is full at some time."""
    warned = Warned(tmp_path)
    made = [record(variables(**{f"TILE{number}": "1"})) for number in range(40)]
    for one in made:
        warned.store.put(KEY, one)
    kept = decode_requested_facts((tmp_path / KEY[:2] / f"{KEY}.asked").read_bytes())
    assert RequestedFacts.of(made[-1]) in kept and len(kept) < len(made)


def test_the_record_of_an_artifact_is_found_by_the_artifacts_key(tmp_path: Path) -> None:
    store, made = Store(tmp_path), [record(variables(TILE=value)) for value in "123"]
    for one in made:
        store.put(KEY, one)
    for kind in ("object", "cubin"):
        assert [store.record_of(artifact_key(one.key, "norm", kind), "norm", kind) for one in made] == made
        assert store.record_of(artifact_key(KEY, "norm", kind), "norm", kind) is None


@pytest.mark.parametrize(("number", "why"), [(errno.ENOSPC, "is full"), (errno.EROFS, "is read-only")])
def test_a_store_that_cannot_be_written_is_one_warning(
    number: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be kept was compiled: the build goes on with it. The disk is a double here."""

    def fails(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    warned = Warned(tmp_path, TILE="1")
    monkeypatch.setattr("precast.build.disk.scratch.os.fsync", fails)
    for _ in range(2):
        warned.store.put(KEY, record())
    assert warned.get() is None and list((tmp_path / KEY[:2]).iterdir()) == []
    (text,) = warned.texts
    assert why in text and "what this build compiles is not kept for the next one" in text


def test_a_damaged_record_is_refused_with_one_warning(tmp_path: Path) -> None:
    warned = Warned(tmp_path, TILE="1")
    warned.store.put(KEY, record())
    path = warned.store.record_file(record().key)
    path.write_bytes(path.read_bytes()[:-1])
    assert warned.get() is None
    assert warned.get() is None
    [text] = warned.texts
    assert str(path) in text
    assert "built again" in text


def test_a_record_that_says_it_was_made_of_something_else_is_refused(tmp_path: Path) -> None:
    """Its file and its key agree with each other, and what it read does not with either."""
    warned = Warned(tmp_path, TILE="1")
    key = record().key
    warned.store.put(KEY, record(inputs=variables(TILE="2"), key=key))
    warned.store.write(KEY, "asked", encode_requested_facts([RequestedFacts.of(record())]))
    assert warned.get() is None
    [text] = warned.texts
    assert "belong to another key" in text


def test_a_record_is_not_used_where_a_package_differs_from_what_it_was_made_of(tmp_path: Path) -> None:
    """The list of names says that nothing has changed; the record itself says what it was made of."""
    warned = Warned(tmp_path, TILE="1", OTHER="1")
    warned.store.put(KEY, record(installed=variables(OTHER="2")))
    listed = replace(RequestedFacts.of(record(installed=variables(OTHER="2"))), digest=variables(OTHER="1").digest)
    warned.store.write(KEY, "asked", encode_requested_facts([listed]))
    assert warned.get() is None


def test_the_order_in_which_names_were_asked_for_is_not_in_the_file() -> None:
    one, other = RequestedFacts.of(record(variables(TILE="1"))), RequestedFacts.of(record(variables(OTHER="1")))
    assert encode_requested_facts([one, other]) == encode_requested_facts([other, one])


def test_what_was_asked_is_refused_where_it_is_damaged(tmp_path: Path) -> None:
    warned = Warned(tmp_path, TILE="1")
    warned.store.put(KEY, record())
    warned.store.write(KEY, "asked", b"{")
    assert warned.get() is None
    [text] = warned.texts
    assert f"{KEY}.asked" in text


@pytest.mark.slow
@pytest.mark.usefixtures("without_torch")
def test_the_record_of_another_variant_costs_a_rebuild_and_a_warning(tmp_path: Path) -> None:
    """What was once put under a wrong key is built again, and replaced."""
    manifest = write(tmp_path, "1, 2")
    store = tmp_path / "store"
    assert precast(store, "build", manifest, "-o", tmp_path / "right").returncode == 0
    first, second = sorted(store.glob("??/*.record"))
    opened = Store(store)
    wrong = opened.read(second.stem)
    assert wrong is not None
    symbols = [product.symbol for one in [opened.read(first.stem)] if one for product in one.products]
    opened.write(first.stem, "record", compressed(replace(wrong, key=first.stem)))
    done = precast(store, "build", manifest, "-o", tmp_path / "cache")
    assert done.returncode == 0
    assert f"warning: {first} is not used: it is not the record of" in done.stderr
    assert "1 variant built, 1 reused" in done.stdout
    assert tree(tmp_path / "cache") == tree(tmp_path / "right")
    again = opened.read(first.stem)
    assert again is not None
    assert [product.symbol for product in again.products] == symbols
