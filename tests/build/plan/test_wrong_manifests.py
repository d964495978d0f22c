"""Each file in wrong/ is named for its one mistake; its first line says the place and the message it must get."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.plan.manifest import read_manifest

WRONG = sorted((Path(__file__).parent / "wrong").glob("*.yaml"))


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_says_where_and_what(path: Path) -> None:
    place, expected = path.read_text().split("\n", 1)[0].removeprefix("# ").split(" ", 1)
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}:{place}: {expected}")
    assert caught.value.location.file == str(path)


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 40


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ManifestError, match=r"none\.yaml:1:1: cannot be read: No such file or directory: give the path"
    ):
        read_manifest(tmp_path / "none.yaml")
