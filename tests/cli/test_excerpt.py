"""All errors of a manifest at once, each with its line and a caret; colours on a terminal only."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.errors import Location, ManifestError
from precast.build.plan.manifest import read_manifest
from precast.cli import main
from precast.cli.shared.excerpt import excerpt, manifest_error
from precast.cli.shared.output import coloured

WRONG = """version: 1
name: Bad
targets: [sm_90q]
kernels:
  - kernal: scale
  - kernel: scale
    confg: {a: 1}
  - kernel: rmsnorm
"""


def test_every_mistake_is_printed_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(WRONG)
    with pytest.raises(SystemExit) as ended:
        main.run(["plan", str(manifest)])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    lines = printed.splitlines()
    errors = [line.removeprefix(f"error: {manifest}:").partition(" ")[0] for line in lines if line.startswith("error")]
    assert errors == ["2:7:", "3:11:", "5:5:", "7:5:"]
    assert all(line.endswith("(PCB01)") for line in lines if line.startswith("error"))
    assert lines[1:3] == ["  2 | name: Bad", "    |       ^"]


def test_wrong_targets_are_no_error_of_the_entries_that_inherit_them(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text("version: 1\nname: x\ntargets: [sm_9]\nkernels: [{kernel: scale}, {kernel: rmsnorm}]\n")
    with pytest.raises(ManifestError) as caught:
        read_manifest(manifest)
    assert caught.value.others == ()


def test_dozens_of_mistakes_are_cut(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text("version: 1\nname: x\ntargets: [sm_90a]\nkernels:\n" + "  - kernal: scale\n" * 100)
    with pytest.raises(ManifestError) as caught:
        read_manifest(manifest)
    text = manifest_error(caught.value)
    assert text.count("error: ") == 12 and text.endswith("and 88 more errors: correct these first")


@pytest.mark.parametrize("place", [(9, 1), (1, 900), (0, 1), (2, 1)])
def test_a_place_that_is_not_there_has_no_excerpt(tmp_path: Path, place: tuple[int, int]) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text("version: 1\n\n")
    assert list(excerpt(Location(str(manifest), *place))) == []
    assert list(excerpt(Location(str(tmp_path / "none.yaml"), *place))) == []


def test_control_characters_of_a_manifest_are_not_printed(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text("name: \x1b[31mred\n")
    assert list(excerpt(Location(str(manifest), 1, 7))) == ["  1 | name:  [31mred", "    |       ^"]


def test_colours_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("warning: x\n    | ^") == "\x1b[1;33mwarning:\x1b[0m x\n    | \x1b[1;31m^\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("error: x") == "error: x"
