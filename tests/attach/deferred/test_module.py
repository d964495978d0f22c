"""A module whose import is deferred runs at its first use, once, and is then the module that any import gives."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
import types
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from precast.attach import DeferredImportFailed
from precast.attach.attachment import Attachment
from precast.attach.deferred.module import Deferral, defer
from precast.attach.deferred.modules import DeferredModules
from precast.attach.recorder import Recorder
from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.attached import MINE

TUNER = f"{PACKAGE}.tuner"
CODE = """
import sys
sys.runs_of_tuner = getattr(sys, "runs_of_tuner", 0) + 1
from minilib.tuner import below
size = 3
from minilib.tuner import dependent
def __getattr__(name):
    if name == "late":
        return "from the module's own __getattr__"
    raise AttributeError(name)
"""
FILES = {
    f"{PACKAGE}/tuner/__init__.py": CODE,
    f"{PACKAGE}/tuner/below.py": "import sys\nseen_half_way = hasattr(sys.modules['minilib.tuner'], 'size')\n",
    f"{PACKAGE}/tuner/settings.py": "limit = 8\n",
    f"{PACKAGE}/tuner/dependent.py": "from minilib.tuner import size\ntwice = 2 * size\n",
    f"{PACKAGE}/broken.py": "raise ValueError('no tuner here')\n",
}
pytestmark = pytest.mark.usefixtures("own_imports")


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(write_library(tmp_path / "site", FILES))
    monkeypatch.setattr(sys, "runs_of_tuner", 0, raising=False)


def runs() -> int:
    return int(vars(sys)["runs_of_tuner"])


def bound(module: str = TUNER) -> ModuleType:
    """The module, imported and not used."""
    assert defer(Deferral(module))
    return importlib.import_module(module)


def test_a_module_apart_is_read_and_changed_without_a_use() -> None:
    assert defer(Deferral(TUNER, apart=["settings"]))
    tuner = importlib.import_module(TUNER)
    tuner.settings.limit = max(tuner.settings.limit, 64)
    assert runs() == 0
    assert tuner.size == 3 and runs() == 1
    assert tuner.settings.limit == 64 and tuner.settings is sys.modules[f"{TUNER}.settings"]


def test_a_module_apart_that_needs_the_one_above_is_imported_after_it() -> None:
    assert defer(Deferral(TUNER, apart=["dependent", "nowhere"]))
    tuner = importlib.import_module(TUNER)
    assert tuner.dependent.twice == 6 and runs() == 1


def test_a_module_apart_that_is_not_there_is_an_attribute_that_is_not_there() -> None:
    assert defer(Deferral(TUNER, apart=["nowhere"]))
    tuner = importlib.import_module(TUNER)
    with pytest.raises(AttributeError, match="nowhere"):
        tuner.nowhere  # noqa: B018
    assert runs() == 1


def test_importing_it_runs_nothing_and_reading_an_attribute_runs_it_once() -> None:
    tuner = bound()
    assert runs() == 0
    assert (tuner.size, tuner.size, runs()) == (3, 3, 1)


def test_what_tools_read_of_every_module_is_no_use() -> None:
    tuner = bound()
    assert tuner.__name__ == TUNER and tuner.__spec__ is not None and str(tuner.__file__).endswith("__init__.py")
    assert isinstance(tuner, ModuleType) and getattr(tuner, "__warningregistry__", None) is None
    inspect.getmodule(runs)  # reads the file of every module
    importlib.import_module(TUNER)
    assert runs() == 0


def test_after_its_use_it_is_an_ordinary_module_bound_everywhere() -> None:
    tuner = bound()
    package = sys.modules[PACKAGE]
    assert vars(package)["tuner"] is tuner
    assert tuner.size == 3
    assert type(tuner) is ModuleType and sys.modules[TUNER] is vars(package)["tuner"] is tuner
    assert not any("deferral" in name for name in vars(tuner))
    assert tuner.late == "from the module's own __getattr__"
    assert importlib.reload(tuner) is tuner and runs() == 2


@pytest.mark.parametrize("code", [f"from {TUNER} import size", f"import {TUNER}.below", f"from {TUNER} import *"])
def test_an_import_of_its_contents_is_a_use(code: str) -> None:
    bound()
    exec(code, {})
    assert runs() == 1


@pytest.mark.parametrize("code", [f"import {TUNER}", f"import {TUNER} as t", f"from {PACKAGE} import tuner"])
def test_an_import_of_the_module_is_no_use(code: str) -> None:
    bound()
    names: dict[str, object] = {}
    exec(code, names)
    assert runs() == 0
    exec("import minilib; assert minilib.tuner.size == 3", names)
    assert runs() == 1


def test_a_module_below_it_that_its_code_imports_runs_once(tmp_path: Path) -> None:
    """Else the second one lacks what the first has imported below itself, as ``triton.language`` lacks ``core``."""
    folder = tmp_path / "site" / PACKAGE / "tuner" / "language"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .core import two\n")
    (folder / "core.py").write_text("two = 2\n")
    init = folder.parent / "__init__.py"
    init.write_text(f"{init.read_text()}\nfrom minilib.tuner import language\n")
    tuner = bound()
    language = importlib.import_module(f"{TUNER}.language")
    assert runs() == 1 and tuner.language is language and language.core.two == 2
    spec = language.__spec__
    assert spec is not None and spec.origin == str(folder / "__init__.py")
    assert importlib.reload(language) is language


def test_a_missing_attribute_is_named_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = bound().nothing


def test_setting_or_deleting_an_attribute_is_not_undone_by_the_modules_code() -> None:
    tuner: Any = bound()
    tuner.size = 4
    assert (tuner.size, runs()) == (4, 1)
    del tuner.size
    assert not hasattr(tuner, "size")


def test_its_dictionary_is_the_one_of_the_module_that_has_run() -> None:
    assert vars(bound())["size"] == 3
    assert "size" in dir(sys.modules[TUNER])


def test_modules_that_its_code_imports_see_it_half_way() -> None:
    assert bound().below.seen_half_way is False


def test_an_answer_replaces_an_attribute_until_the_first_use() -> None:
    assert defer(Deferral(TUNER, {"size": "answered"}))
    tuner = importlib.import_module(TUNER)
    assert (tuner.size, runs()) == ("answered", 0)
    assert (tuner.below.__name__, tuner.size, runs()) == (f"{TUNER}.below", 3, 1)


def test_an_error_of_its_code_names_the_module_and_the_next_use_tries_again(tmp_path: Path) -> None:
    broken = bound(f"{PACKAGE}.broken")
    with pytest.raises(DeferredImportFailed, match=r"minilib\.broken was imported before.*ValueError: no tuner") as e:
        _ = broken.tune
    assert isinstance(e.value, ImportError) and e.value.name == f"{PACKAGE}.broken"
    assert isinstance(e.value.__cause__, ValueError)
    Path(str(broken.__file__)).write_text("tune = 'now it works'  # of another length\n")
    importlib.invalidate_caches()
    assert broken.tune == "now it works"


def test_a_module_that_is_not_installed_fails_where_it_is_imported() -> None:
    assert defer(Deferral(f"{PACKAGE}.nowhere"))
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        importlib.import_module(f"{PACKAGE}.nowhere")


def test_a_module_that_replaces_itself_gives_what_it_put_there(tmp_path: Path) -> None:
    code = "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(size=9)\n"
    (tmp_path / "site" / PACKAGE / "replaced.py").write_text(code)
    replaced = bound(f"{PACKAGE}.replaced")
    assert (replaced.size, replaced.size) == (9, 9)
    assert isinstance(sys.modules[f"{PACKAGE}.replaced"], types.SimpleNamespace)


def test_threads_that_use_it_at_once_wait_for_one_run(tmp_path: Path) -> None:
    slow = "import sys, time\nsys.runs_of_tuner += 1\ntime.sleep(0.2)\nlast = 'there'\n"
    (tmp_path / "site" / PACKAGE / "slow.py").write_text(slow)
    module, read = bound(f"{PACKAGE}.slow"), []
    threads = [threading.Thread(target=lambda: read.append(module.last)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (read, runs()) == (["there"] * 8, 1)


def test_a_module_in_c_is_imported_as_before() -> None:
    sys.modules.pop("_heapq", None)
    assert defer(Deferral("_heapq"))
    assert type(importlib.import_module("_heapq")) is ModuleType


def test_it_is_deferred_once_and_not_where_it_is_imported() -> None:
    assert defer(Deferral(TUNER))
    assert not defer(Deferral(TUNER))
    assert not defer(Deferral("json"))


def test_a_seam_defers_in_a_serving_process_and_not_in_a_recording(tmp_path: Path) -> None:
    seam = DeferredModules((TUNER,))
    seam.install(Attachment("record", recorder=Recorder(tmp_path / "recording.yaml")), MINE)
    assert importlib.import_module(TUNER).size == 3 and runs() == 1
    assert seam.late(Attachment("frozen"), MINE) is None
    for name in [name for name in sys.modules if name.startswith(TUNER)]:
        del sys.modules[name]
    seam.install(Attachment("frozen"), MINE)
    importlib.import_module(TUNER)
    assert runs() == 1
