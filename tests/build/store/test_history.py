"""Why a variant is built again, and how long each took the last time."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from precast.build.disk.memo import Memo
from precast.build.gpu.profile import profile_of
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import NO_INPUTS, Inputs
from precast.build.inputs.roots import Roots
from precast.build.store.costs import Costs
from precast.build.store.history import Verdict, explain, note_built
from precast.build.store.key import record_key
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record
from precast.build.store.store import Store
from precast.loader.contract.format.target import Target
from tests.helpers.variants import variant

H200 = profile_of(Target.parse("sm_90a"))
OLD, NEW = "0" * 64, "1" * 64


def answers(folder: Path, **files: str) -> InputAnswers:
    """With files of this content in the home folder."""
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for name, text in files.items():
        (home / name).write_text(text)
    return InputAnswers(Roots([], [], str(home)))


def lookup(folder: Path, **files: str) -> Lookup:
    return Lookup(Store(folder), answers(folder, **files))


def built(folder: Path, *, installed: bool = False, **files: str) -> Record:
    """A record of a variant with these files as its own inputs, or as those of an installed package."""
    kept = Store(folder)
    read = Inputs.of(answers(folder, **files).answers(f"file:~/{name}" for name in files))
    key = OLD if installed else record_key(OLD, {}, read.answers)
    inputs, packages = (NO_INPUTS, read) if installed else (read, NO_INPUTS)
    record = Record(key=key, products=(), seconds=1.0, inputs=inputs, installed=packages)
    kept.put(OLD, record)
    note_built(kept.notes, variant(1), {"source": "a" * 64, "tools": {"ld": "2.40"}}, record.key)
    return record


def verdict(kept: Lookup, key: str = OLD, source: str = "a" * 64, ld: str = "2.40") -> Verdict:
    return explain(kept, variant(1), key, {"source": source, "tools": {"ld": ld}}, H200)


def test_what_is_as_it_was_is_reused(tmp_path: Path) -> None:
    built(tmp_path, TILE="1")
    assert verdict(lookup(tmp_path, TILE="1")).reused


def test_a_changed_input_is_named(tmp_path: Path) -> None:
    for installed in (False, True):
        folder = tmp_path / str(installed)
        built(folder, installed=installed, TILE="1")
        found = verdict(lookup(folder, TILE="2"))
        assert not found.reused and [change.name for change in found.changes] == ["file:~/TILE"]


def test_a_changed_part_of_the_key_is_named(tmp_path: Path) -> None:
    built(tmp_path, TILE="1")
    found = verdict(lookup(tmp_path, TILE="1"), NEW, ld="2.41")
    assert [str(change) for change in found.changes] == ["tools.ld: 2.40, now 2.41"]


def test_changed_sources_are_named_where_no_file_of_them_is(tmp_path: Path) -> None:
    built(tmp_path, TILE="1")
    assert [c.name for c in verdict(lookup(tmp_path, TILE="1"), NEW, "b" * 64).changes] == ["source"]
    assert [c.name for c in verdict(lookup(tmp_path, TILE="2"), NEW, "b" * 64).changes] == ["file:~/TILE"]


def test_each_gpu_has_a_history_of_its_own(tmp_path: Path) -> None:
    kept = lookup(tmp_path)
    note_built(kept.store.notes, replace(variant(1), profile="H200"), {"source": "a" * 64}, OLD)
    assert explain(kept, replace(variant(1), profile="H20"), NEW, {"source": "b" * 64}, H200).changes == ()
    assert explain(kept, replace(variant(1), profile="H200"), NEW, {"source": "b" * 64}, H200).changes != ()


def test_the_times_of_what_was_not_built_now_are_kept(tmp_path: Path) -> None:
    for number, seconds in ((1, 15.0), (2, 0.5)):
        costs = Costs(Memo(tmp_path))
        costs.add(variant(number), seconds)
        costs.save()
    assert Costs(Memo(tmp_path)).of([variant(1), variant(2), variant(3)]) == {
        variant(1).identity: 15.0,
        variant(2).identity: 0.5,
    }
