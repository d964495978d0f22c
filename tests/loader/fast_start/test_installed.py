"""The quick look at installed distributions sees what the standard one sees."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from precast.loader.fast_start.installed import Installed, has_other_finders

pytestmark = pytest.mark.usefixtures("plain_finders")


def test_it_sees_what_importlib_sees() -> None:
    assert not has_other_finders()
    installed = Installed()
    groups = {point.group for one in metadata.distributions() for point in one.entry_points}
    assert "console_scripts" in groups
    for group in groups:
        assert set(installed.entry_points(group)) == {(p.name, p.module) for p in metadata.entry_points(group=group)}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        assert installed.version_of(name) == metadata.version(name), name


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, place in enumerate(("one", "two")):
        info = tmp_path / place / f"Some_Thing-{n}.0.dist-info"
        info.mkdir(parents=True)
        text = f"[other]\nx = y\n[precast.caches]\n# no\nname{n} = module{n}:attribute [extra]\n\n= z\n[last]\na=b\n"
        (info / "entry_points.txt").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "missing"), str(tmp_path / "two")])
    installed = Installed()
    assert installed.entry_points("precast.caches") == (("name0", "module0"),)
    assert installed.version_of("some.thing") == "0.0"


def test_a_later_distribution_of_the_same_name_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name, group in (("one", "some_thing-1", "other"), ("two", "Some.Thing-2", "precast.caches")):
        info = tmp_path / place / f"{name}.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text(f"[{group}]\nname = module\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two")])
    assert Installed().entry_points("precast.caches") == ()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "two"), str(tmp_path / "one")])
    assert Installed().entry_points("precast.caches") == (("name", "module"),)


def test_a_group_at_the_end_of_a_long_file_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "long-1.dist-info"
    info.mkdir()
    lines = "".join(f"name{n} = module\n" for n in range(2000))
    (info / "entry_points.txt").write_text(f"[other]\n{lines}[precast.caches]\nlast = module\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert Installed().entry_points("precast.caches") == (("last", "module"),)


def test_another_provider_is_asked_the_standard_way(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None: ...

        @staticmethod
        def find_distributions(*_: object) -> list[metadata.Distribution]:
            return []

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    installed = Installed()
    assert has_other_finders()
    assert installed.version_of("apache-tvm-ffi") == metadata.version("apache-tvm-ffi")
    assert installed.version_of("nothing-of-this-name") is None
    assert ("hypothesispytest", "_hypothesis_pytestplugin") in installed.entry_points("pytest11")


def test_a_get_needs_no_importlib_metadata(path: Path) -> None:
    code = (
        "import sys\nfrom precast import loader\nloader.ops()\n"
        "loader.explain('scale', {'dtype': 'bf16'}, target='sm_90a')\n"
        "assert 'importlib.metadata' not in sys.modules and 'email' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env={"PRECAST_CACHE_PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
