"""Triton waits for its first use, and what a library took out of it before then is Triton's own from then on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.attached import passes

MANAGER = """
class CacheManager(ABC):
    @abstractmethod
    def get_file(self): ...

class FileCacheManager(CacheManager):
    made = 0
    def __init__(self, key):
        self.key = key
        type(self).made += 1
    def get_file(self):
        return f"file of {self.key}"
"""
TRITON = {
    "triton/__init__.py": "import triton.runtime\nversion = 3\n",
    "triton/runtime/__init__.py": "import triton.runtime.cache\nautotuner = 'tunes'\n",
    "triton/runtime/cache.py": "from abc import ABC, abstractmethod\n" + MANAGER,
    "triton/tools/__init__.py": "",
    "triton/tools/disasm.py": "import triton\ndef extract(path, function):\n    return path, function, triton.version",
}
LIBRARY = {
    f"{PACKAGE}/utils.py": """
try:
    from triton.tools.disasm import extract
except ImportError:
    extract = None
""",
    f"{PACKAGE}/tuner.py": """
import triton

class Manager(triton.runtime.cache.FileCacheManager):
    def __init__(self, key):
        super().__init__(key)
        self.own = True
""",
}
ATTACHED = """
import sys
from precast.attach import Library, attach
from precast.attach.deferred.triton import Triton
mine = Library(name="mine", distribution="minilib", package="minilib", seams=(Triton("minilib.utils"),))
attach([mine], mode="frozen")
from minilib import utils
executed = lambda: "triton.runtime" in sys.modules
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_library(tmp_path / "site", {**TRITON, **LIBRARY})


def test_importing_the_library_executes_none_of_it(site: Path) -> None:
    code = """
from minilib import tuner
import triton
assert issubclass(tuner.Manager, triton.runtime.cache.FileCacheManager)
assert utils.extract is not None and not executed() and "triton.tools.disasm" not in sys.modules
"""
    passes(ATTACHED + code, path=[site])


@pytest.mark.parametrize(
    "use",
    [
        "tuner.Manager('k')",
        "tuner.Manager.made",
        "import triton; triton.version",
        "import triton.tools.disasm",
        "utils.extract('a', 'b')",
        "from triton.runtime.cache import FileCacheManager",
        "import triton; assert triton.runtime.autotuner == 'tunes'",
        "import triton; triton.runtime.cache.CacheManager",
    ],
)
def test_after_any_use_the_class_is_derived_from_tritons_own(site: Path, use: str) -> None:
    code = f"""
from minilib import tuner
assert not executed()
{use}
assert executed()
from triton.runtime.cache import FileCacheManager
assert tuner.Manager.__bases__ == (FileCacheManager,)
made = tuner.Manager("k")
assert made.own and made.get_file() == "file of k" and isinstance(made, FileCacheManager)
"""
    passes(ATTACHED + code, path=[site])


def test_a_class_that_is_derived_after_the_use_has_tritons_own(site: Path) -> None:
    code = """
import triton
runtime = triton.runtime
triton.version
from minilib import tuner
from triton.runtime.cache import FileCacheManager
assert tuner.Manager.__mro__[1] is FileCacheManager is runtime.cache.FileCacheManager
"""
    passes(ATTACHED + code, path=[site])


def test_the_disassembler_is_tritons_own_at_its_call_and_for_other_modules(site: Path) -> None:
    code = """
assert utils.extract("a", function="b") == ("a", "b", 3)
import triton.tools.disasm as disassembler
assert disassembler.extract("a", "b") == ("a", "b", 3) and disassembler.__spec__ is not None
"""
    passes(ATTACHED + code, path=[site])


def test_a_triton_without_a_disassembler_and_an_absent_one_are_seen(site: Path, tmp_path: Path) -> None:
    (site / "triton" / "tools" / "disasm.py").unlink()
    passes(ATTACHED + "assert utils.extract is None\n", path=[site])
    absent = """
assert utils.extract is None
try:
    from minilib import tuner
except ModuleNotFoundError as error:
    assert error.name == "triton"
else:
    raise AssertionError
"""
    bare = write_library(tmp_path / "bare", LIBRARY)
    passes(hidden_triton(absent), path=[bare])


def hidden_triton(code: str) -> str:
    """The code, where Triton is not installed."""
    hide = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            raise ModuleNotFoundError(f"No module named {name!r}", name="triton")
sys.meta_path.insert(0, Absent())
"""
    return hide + ATTACHED + code


def test_a_class_that_cannot_be_derived_any_more_is_an_error_of_its_call(site: Path) -> None:
    (site / "triton" / "runtime" / "cache.py").write_text("class FileCacheManager(dict): pass\n")
    code = """
from minilib import tuner
from precast.attach import DeferredImportFailed
import triton
assert triton.version == 3
try:
    tuner.Manager("k")
except DeferredImportFailed as error:
    assert "import triton before attaching" in str(error)
else:
    raise AssertionError
"""
    passes(ATTACHED + code, path=[site])


def test_a_triton_that_is_imported_already_stays_as_it_is(site: Path) -> None:
    code = "from minilib import tuner\nassert executed() and tuner.Manager('k').get_file() == 'file of k'\n"
    passes("import triton\n" + ATTACHED + code, path=[site])
