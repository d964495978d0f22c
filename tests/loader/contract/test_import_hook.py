"""Modules are changed at every execution, and are otherwise what they are without a hook."""

from __future__ import annotations

import importlib
import importlib.resources
import importlib.util
import inspect
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from precast.loader.contract.import_hook import after_import, after_import_below
from tests.helpers.attach.mini_library import PACKAGE

KERNELS = f"{PACKAGE}.kernels"
pytestmark = pytest.mark.usefixtures("own_imports")


def mark(module: ModuleType) -> None:
    vars(module)["marks"] = [*vars(module).get("marks", []), module.compiled.__name__]


def test_a_module_that_was_changed_is_like_any_other(installed: Path) -> None:
    after_import({KERNELS: mark})
    module = importlib.import_module(KERNELS)
    assert module.marks == ["compiled"]
    assert module.__spec__ is not None
    assert type(module.__loader__) is type(module.__spec__.loader) is SourceFileLoader
    assert inspect.getsource(module) == (installed / PACKAGE / "kernels.py").read_text()
    assert inspect.getsource(module.compiled).startswith("def compiled")
    assert importlib.resources.files(PACKAGE).joinpath("kernels.py").is_file()


def test_a_reload_is_changed_again(installed: Path) -> None:
    after_import_below(PACKAGE, lambda module: vars(module).update(marks="changed"))
    module = importlib.import_module(KERNELS)
    vars(module)["marks"] = ""
    assert importlib.reload(module).marks == "changed"
    assert type(module.__loader__) is SourceFileLoader


def test_a_search_for_the_module_does_not_use_the_change_up(installed: Path) -> None:
    after_import({KERNELS: mark})
    spec = importlib.util.find_spec(KERNELS)
    assert spec is not None and isinstance(spec.loader, object)
    assert spec.loader.get_source(KERNELS) == (installed / PACKAGE / "kernels.py").read_text()  # type: ignore[union-attr]
    assert importlib.import_module(KERNELS).marks == ["compiled"]


def test_a_module_whose_import_failed_is_changed_when_it_succeeds(installed: Path) -> None:
    path = installed / PACKAGE / "kernels.py"
    text = path.read_text()
    path.write_text("raise ImportError('not yet')")
    after_import({KERNELS: mark})
    with pytest.raises(ImportError, match="not yet"):
        importlib.import_module(KERNELS)
    assert KERNELS not in sys.modules
    path.write_text(text)
    importlib.invalidate_caches()
    assert importlib.import_module(KERNELS).marks == ["compiled"]


def test_two_changes_of_one_module_are_both_made(installed: Path) -> None:
    after_import({KERNELS: mark})
    after_import_below(PACKAGE, lambda module: vars(module).update(below=True))
    after_import({KERNELS: mark})
    module = importlib.import_module(KERNELS)
    assert module.marks == ["compiled", "compiled"] and module.below


def test_only_the_package_is_changed_without_what_is_left_out(installed: Path) -> None:
    (installed / PACKAGE / "out").mkdir()
    (installed / PACKAGE / "out" / "__init__.py").write_text("")
    (installed / f"{PACKAGE}_more.py").write_text("")
    changed: list[str] = []
    after_import_below(PACKAGE, lambda module: changed.append(module.__name__), without=(f"{PACKAGE}.out",))
    for name in (f"{PACKAGE}.out", f"{PACKAGE}_more", KERNELS):
        importlib.import_module(name)
    del sys.modules[f"{PACKAGE}_more"]
    assert changed == [PACKAGE, KERNELS]


def test_a_module_that_is_there_is_changed_at_once(installed: Path) -> None:
    module = importlib.import_module(KERNELS)
    after_import({KERNELS: mark, f"{PACKAGE}.missing": mark})
    assert module.marks == ["compiled"]
    assert importlib.util.find_spec(f"{PACKAGE}.missing") is None
    with pytest.raises(ModuleNotFoundError, match="missing"):
        importlib.import_module(f"{PACKAGE}.missing")


def test_a_folder_without_a_module_stays_one(installed: Path) -> None:
    (installed / PACKAGE / "folder").mkdir()
    after_import_below(PACKAGE, lambda module: None)
    assert importlib.import_module(f"{PACKAGE}.folder").__path__
