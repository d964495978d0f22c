"""Parcels: what travels to another machine arrives whole or not at all, and stays in its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.compile import parcel as parcels
from precast.build.compile.parcel import Parcel, differences, parcel_for, this_builder
from precast.build.errors import ClusterError, Location
from precast.build.inputs.sources import SourceDigests
from precast.build.ipc.message import Message
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two search folders: a package that reaches a module of the other, and one that nobody reaches."""
    for name, text in {
        "a/mine/__init__.py": "",
        "a/mine/kernels.py": "from . import shapes\nimport helper\nimport os",
        "a/mine/shapes.py": "",
        "a/mine/unused.py": "",
        "b/helper.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def parcel(folder: Path) -> Parcel:
    variant = Variant(
        op="x", source="mine.kernels:f", config={"n": 1}, target=Target.parse("sm_90a"),
        location=Location("m.yaml", 1, 1), env={"MINE": "1"},
    )  # fmt: skip
    plan = Plan(name="x", variants=(variant,), ops={}, search=(folder / "a", folder / "b"))
    return parcel_for(variant, plan, 60.0)


def test_a_parcel_holds_what_the_function_reaches(folder: Path, tmp_path: Path) -> None:
    sent = parcel(folder)
    assert set(sent.files) == {(0, "mine/__init__.py"), (0, "mine/kernels.py"), (0, "mine/shapes.py"), (1, "helper.py")}
    got = Parcel.decode(sent.encode())
    assert (got.request, got.files, got.group) == (sent.request, sent.files, sent.group)
    assert got.profile.answer("multiprocessor_count") == sent.profile.answer("multiprocessor_count")
    there = tmp_path / "there"
    there.mkdir()
    search = got.unpack(there)
    assert (search[1] / "helper.py").is_file()
    assert got.unlike(search) == []
    assert str(folder).encode() not in sent.encode(), "no path of this machine travels"


def test_a_machine_with_other_code_says_so(folder: Path, tmp_path: Path) -> None:
    sent = parcel(folder)
    there = tmp_path / "there"
    there.mkdir()
    changed = replace(sent, files={**sent.files, (0, "mine/shapes.py"): b"SIZE = 2"})
    assert changed.unlike(changed.unpack(there)) == [
        "the code of mine.kernels differs: install the same version on both machines"
    ]
    other = replace(sent, like={**this_builder(), "host": "riscv64"})
    assert other.unlike([]) == [f"host is riscv64 here and {this_builder()['host']} there"]
    assert differences({"a": "0" * 64}, {}) == ["a is 000000000000 here and missing there"]


@pytest.mark.parametrize("path", ["../out.py", "/etc/out.py", "a/../../out.py", "", "x\0y.py"])
def test_a_file_cannot_leave_its_folder(folder: Path, path: str) -> None:
    sent = parcel(folder)
    files = {(1, path) if place == (1, "helper.py") else place: data for place, data in sent.files.items()}
    with pytest.raises(FormatError, match="not a file of a parcel"):
        Parcel.decode(replace(sent, files=files).encode())


def test_a_file_that_changed_on_the_way(folder: Path) -> None:
    message = Message.decode(parcel(folder).encode())
    forged = Message(message.header, (*message.parts[:-1], b"import os; os.abort()"))
    with pytest.raises(FormatError, match="was changed during the transfer"):
        Parcel.decode(forged.encode())
    with pytest.raises(FormatError, match="files, not"):
        Parcel.decode(Message(message.header, message.parts[:-1]).encode())


@given(st.data())
def test_any_bytes_are_a_parcel_or_refused(data: st.DataObject) -> None:
    with pytest.raises(FormatError):
        Parcel.decode(data.draw(st.binary(max_size=200)))
    header = data.draw(st.dictionaries(st.sampled_from(["target", "files", "folders", "env"]), st.integers()))
    with pytest.raises(FormatError):
        Parcel.decode(Message(header).encode())


def test_more_files_than_can_travel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "_FILES", 3)
    with pytest.raises(ClusterError, match="needs 4 files of its search folders, and a parcel has at most 3"):
        parcel(folder)
    assert SourceDigests([folder / "a", folder / "b"]).files("mine.kernels:f")
