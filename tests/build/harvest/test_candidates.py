"""Candidates are recorded keys of the target, and of the libraries that are installed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.harvest.candidates import candidates_of
from precast.loader.attach import Library, declare
from precast.loader.contract.format.target import Target
from precast.loader.errors import ConfigError

TARGET = Target.parse("sm_90a")
HEAD = "version: 1\nname: all\ntargets: [sm_90a, sm_100a]\nkernels:\n"
ENTRY = '  - {{compile: "yaml.reader:compile@yamllib", config: {{n: {}}}, targets: {}}}\n'


@pytest.fixture(autouse=True)
def library() -> None:
    """An installed package, whose guard can be computed."""
    declare(Library(name="yamllib", distribution="pyyaml", package="yaml", seams=()))


def written(folder: Path, *entries: str) -> Path:
    path = folder / "all.yaml"
    path.write_text(HEAD + "".join(entries))
    return path


def test_the_entries_of_a_target_are_candidates(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        ENTRY.format("[1, 2]", "sm_90a"),
        ENTRY.format("3", "[sm_100a]"),
        ENTRY.format("4", "[sm_90a, sm_100a]"),
    )
    assert [key.config for key in candidates_of(path, TARGET)] == [{"n": 1}, {"n": 2}, {"n": 4}]


def test_a_manifest_without_entries_of_the_target_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRY.format("3", "[sm_100a]"))
    with pytest.raises(ConfigError, match="give one of them as --target, or name a manifest for sm_90a"):
        candidates_of(path, TARGET)


@pytest.mark.parametrize(
    "entry",
    [
        "  - {kernel: rmsnorm, config: {dtype: float32}}\n",
        '  - {compile: "yaml.reader:compile@yamllib", config: {n: 1}, env: {A: b}}\n',
        '  - {compile: "yaml.reader:compile@yamllib", op: other, config: {n: 1}}\n',
    ],
)
def test_other_entries_are_refused_at_their_line(tmp_path: Path, entry: str) -> None:
    path = written(tmp_path, ENTRY.format("1", "sm_90a"), entry)
    with pytest.raises(ManifestError, match=re.escape("as 'precast record' writes them")) as error:
        candidates_of(path, TARGET)
    assert error.value.location.line == 6


@pytest.mark.parametrize("guard", ['library_version: "0"', 'library_source: "0"'])
def test_keys_of_another_version_are_refused(tmp_path: Path, guard: str) -> None:
    entry = f'  - {{compile: "yaml.reader:compile@yamllib", config: {{n: 1, {guard}}}}}\n'
    with pytest.raises(ConfigError, match="other files or another version are installed here: record it again"):
        candidates_of(written(tmp_path, entry), TARGET)
