"""Each file in wrong/ is named for its one mistake; its first line says the place and the message it must get."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from precast.build.errors import ManifestError
from precast.build.plan.entry_reader import ENTRY_FIELDS
from precast.build.plan.manifest import ROOT_FIELDS, parse_manifest, read_manifest
from precast.build.plan.yaml.reader import read_yaml

WRONG = sorted((Path(__file__).parent / "wrong").glob("*.yaml"))


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_says_where_and_what(path: Path) -> None:
    text = path.read_text()
    if "call:" in text or "script:" in text:
        pytest.importorskip("precast.attach")
    place, expected = text.split("\n", 1)[0].removeprefix("# ").split(" ", 1)
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    every = (caught.value, *caught.value.others)
    assert any(error.own_text.startswith(f"{path}:{place}: {expected}") for error in every)
    assert caught.value.location.file == str(path)


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 40


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ManifestError, match=r"none\.yaml:1:1: cannot be read: No such file or directory: give the path"
    ):
        read_manifest(tmp_path / "none.yaml")


def test_a_folder_may_be_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clone" / "kernels").mkdir(parents=True)
    monkeypatch.setenv("ACME_CLONE", str(tmp_path / "clone"))
    text = b'{version: 1, name: x, targets: sm_90a, path: "${ACME_CLONE}/kernels", kernels: [{compile: "m:f", op: o}]}'
    assert parse_manifest(text, Path("m.yaml")).search == (tmp_path / "clone" / "kernels",)
    monkeypatch.setenv("ACME_CLONE", str(tmp_path / "gone"))
    with pytest.raises(ManifestError, match="gone/kernels' is not a folder"):
        parse_manifest(text, Path("m.yaml"))


def test_inputs_of_the_file_and_of_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named by their paths; variables become those of the compilation, where they are set."""
    (tmp_path / "tables").mkdir()
    monkeypatch.setenv("ACME_TILE", "64")
    text = b"""
version: 1
name: x
targets: sm_90a
inputs: {programs: git, variables: [ACME_TILE, ACME_UNSET]}
kernels:
  - {kernel: norm, inputs: {files: [tables, none.json], packages: Acme_Tiles, programs: git}}
  - {kernel: other, env: {ACME_TILE: 32}}
"""
    first, second = parse_manifest(text, tmp_path / "m.yaml").entries
    assert first.inputs == (
        "program:git", f"folder:{tmp_path}/tables", f"file:{tmp_path}/none.json", "distribution:acme-tiles"
    )  # fmt: skip
    assert (dict(first.env), dict(second.env)) == ({"ACME_TILE": "64"}, {"ACME_TILE": "32"})
    assert second.inputs == ("program:git",) and first.ref.inputs == first.inputs


def test_every_field_of_the_reference_is_read() -> None:
    program = pytest.importorskip("precast.attach.builder.program")
    """A field that the reference describes and the reader ignores would be lost in silence."""
    text = b"""
version: 1
name: x
targets: sm_90a
profiles: H200
path: .
inputs: {programs: git}
tuning: h200.json
kernels:
  - {kernel: norm, config: {a: 1}, tuned: {b: 2}, include: [{a: 3}], exclude: [{a: 1}], targets: sm_100a, emit: cubin,
     env: {X: 1}, inputs: {files: a.json}, parts: p, problems: [{n: 1}], skip_unsupported: true}
  - {compile: "m:f", op: o, speed_only: max_active_clusters}
  - {call: "m:f", with: {x: 1}, backward: true, libraries: quack}
  - {script: test_wrong_manifests.py, arguments: [1]}
"""
    root = read_yaml(text, "m.yaml")
    assert isinstance(root.value, dict) and set(root.value) == set(ROOT_FIELDS)
    given = {key for entry in root.plain()["kernels"] for key in entry}
    assert given == set(ENTRY_FIELDS)
    made = parse_manifest(text, Path(__file__))
    plain = parse_manifest(b'{version: 1, name: y, targets: sm_90a, kernels: [{compile: "m:g"}]}', Path("m.yaml"))
    assert unchanged(made, plain) == {"targets"}
    assert unchanged(made.entries[0], plain.entries[0]) == {"program", "speed_only", "gpus"}
    assert made.entries[1].speed_only == ("max_active_clusters",)
    call, script = (entry.program for entry in made.entries[2:])
    assert isinstance(call, program.Call) and (call.place, call.backward, call.libraries) == ("m:f", True, ("quack",))
    assert call.request({})["arguments"] == {"x": 1}
    assert script == program.Script(path=Path(__file__).resolve(), arguments=("1",))


def unchanged(one: Any, other: Any) -> set[str]:
    """The fields in which two manifests, or two entries, agree."""
    return {f.name for f in fields(one) if getattr(one, f.name) == getattr(other, f.name)}
