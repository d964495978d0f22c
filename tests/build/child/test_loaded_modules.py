"""Which modules were loaded since the last call, where only those that were sought are looked at."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from precast.build.child.observe.loaded_modules import LoadedModules, NoFinder

NAMES = ("loaded_one", "loaded_two", "loaded_two.inner")


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadedModules]:
    """What watches the imports of this process, which knows all modules so far, with some more to import."""
    (tmp_path / "loaded_one.py").touch()
    (tmp_path / "loaded_two").mkdir()
    for name in ("__init__", "inner"):
        (tmp_path / "loaded_two" / f"{name}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = LoadedModules()
    monkeypatch.setattr(sys, "meta_path", [NoFinder(modules.seek), *sys.meta_path])
    modules.new_rows()
    yield modules
    for name in NAMES:
        sys.modules.pop(name, None)


def names(modules: LoadedModules) -> list[str]:
    return [name for name, _, _ in modules.new_rows()]


def test_what_is_imported_is_new_once_with_its_packages(loaded: LoadedModules) -> None:
    importlib.import_module("loaded_two.inner")
    assert names(loaded) == ["loaded_two", "loaded_two.inner"]
    assert names(loaded) == []


def test_one_that_takes_the_room_of_a_removed_one_is_new(loaded: LoadedModules) -> None:
    importlib.import_module("loaded_one")
    assert names(loaded) == ["loaded_one"]
    del sys.modules["loaded_one"]
    importlib.import_module("loaded_two")
    assert names(loaded) == ["loaded_two"]


def test_one_that_is_imported_again_is_new(loaded: LoadedModules) -> None:
    importlib.import_module("loaded_one")
    names(loaded)
    del sys.modules["loaded_one"]
    importlib.import_module("loaded_one")
    assert names(loaded) == ["loaded_one"]


def test_one_that_was_put_in_place_by_hand_is_new(loaded: LoadedModules, tmp_path: Path) -> None:
    made = ModuleType("loaded_one")
    made.__file__ = str(tmp_path / "loaded_one.py")
    sys.modules["loaded_one"] = made
    assert names(loaded) == ["loaded_one"]


def test_one_that_is_sought_in_vain_is_not_new(loaded: LoadedModules) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("loaded_nowhere")
    assert names(loaded) == []
