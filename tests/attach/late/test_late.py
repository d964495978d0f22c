"""Attaching a library that is imported already: it is refused where something has taken what a seam replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.attached import passes

KERNELS = """
import functools

class cute:
    compile = staticmethod(lambda *arguments: ("compiled", *arguments))

@functools.cache
def compiled(n):
    return cute.compile(n)

def front_end(n):
    if n not in front_end.compile_cache:
        front_end.compile_cache[n] = compiled(n)
    return front_end.compile_cache[n]

front_end.compile_cache = {}
"""
FILES = {
    f"{PACKAGE}/kernels.py": KERNELS,
    f"{PACKAGE}/jit.py": "def jit_cache(function): return function\n",
    f"{PACKAGE}/calls.py": "from minilib import kernels\ndef call(n): return kernels.compiled(n)\n",
    f"{PACKAGE}/name.py": "from minilib.kernels import compiled as taken\n",
    f"{PACKAGE}/table.py": "from minilib import kernels\nTABLE = {'sm_90a': kernels.compiled}\n",
    f"{PACKAGE}/method.py": "from minilib import kernels\nclass Engine: run = kernels.compiled\n",
    f"{PACKAGE}/closure.py": "from minilib import kernels\ndef keep(f): return lambda: f\nf = keep(kernels.compiled)\n",
    f"{PACKAGE}/calls_front_end.py": "from minilib.kernels import front_end\n",
    f"{PACKAGE}/mapping.py": "from minilib.kernels import front_end\nkept = front_end.compile_cache\n",
    f"{PACKAGE}/disk.py": "import os\nenabled = os.environ.get('MINILIB_DISK_CACHE')\n",
    f"{PACKAGE}/attaches.py": "import begin; begin.begin()\n",
    "engine/__init__.py": "",
    "engine/runner.py": "from minilib.kernels import compiled\n",
}
BEGIN = """
import os, sys
from precast.attach import *
from precast.attach.compiler import importers
from precast.loader.errors import ConfigError

def begin(*seams, mode="frozen", **more):
    mine = Library(name="mine", distribution="minilib", package="minilib", seams=seams, **more)
    return attach([mine], mode=mode, target="sm_90a", recording="/dev/null" if mode == "record" else None)

def refused(text, *seams, **more):
    before = list(sys.meta_path), dict(os.environ)
    try: begin(*seams, **more)
    except ConfigError as error: assert text in str(error), error
    else: raise AssertionError(f"not refused: {text}")
    assert attached() is None and (list(sys.meta_path), dict(os.environ)) == before

def frozen(call, *arguments):
    try: answer = call(*arguments)
    except KernelMissing: return
    raise AssertionError(f"compiled: {answer}")
"""
FUNCTION_SEAMS = (f"Functions('{PACKAGE}.kernels', ('compiled',))", f"CompileFunctions('{PACKAGE}')")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library."""
    return write_library(tmp_path_factory.mktemp("site"), FILES)


@pytest.mark.parametrize("seam", FUNCTION_SEAMS)
def test_a_function_that_only_its_module_has_is_replaced(seam: str, site: Path) -> None:
    code = f"""{BEGIN}
from minilib import calls, kernels
assert calls.call(1) == ("compiled", 1)
begin({seam})
frozen(calls.call, 2)
frozen(kernels.compiled, 2)
"""
    passes(code, path=[site])


@pytest.mark.parametrize("seam", FUNCTION_SEAMS)
@pytest.mark.parametrize(
    ("module", "holder"),
    [
        ("minilib.name", "minilib.name"),
        ("engine.runner", "engine.runner"),
        ("minilib.table", "an object of type dict"),
        ("minilib.method", "an object of type dict"),
        ("minilib.closure", "an object of type cell"),
    ],
)
def test_a_function_that_something_has_taken_is_refused_by_name(
    seam: str, module: str, holder: str, site: Path
) -> None:
    code = f"""{BEGIN}
import {module}
from minilib import kernels
before = id(kernels.compiled)
refused("{holder} has taken minilib.kernels:compiled already: attach mine before the first import", {seam})
assert id(kernels.compiled) == before
"""
    passes(code, path=[site])


def test_what_was_frozen_is_searched_and_stays_frozen(site: Path) -> None:
    """Engines freeze what they have loaded, and ``gc.get_referrers`` does not return it."""
    code = f"""{BEGIN}
import gc
import minilib.name
gc.freeze()
count = gc.get_freeze_count()
refused("minilib.name has taken minilib.kernels:compiled already", {FUNCTION_SEAMS[0]})
assert gc.get_freeze_count() >= count
"""
    passes(code, path=[site])


def test_a_decorator_is_late_once_its_module_is_imported(site: Path) -> None:
    seam = f"Decorator('{PACKAGE}.jit', 'jit_cache')"
    passes(f"{BEGIN}\nimport minilib.kernels\nbegin({seam})", path=[site])
    passes(f"{BEGIN}\nimport minilib.jit\nrefused('minilib.jit is already imported', {seam})", path=[site])


def test_the_epilogues_of_quack_must_be_noted_from_the_first_on() -> None:
    code = f"""{BEGIN}
import types
from precast.attach.libraries.quack import EpilogueFactories
library, seam = library_named("quack"), EpilogueFactories("quack.epilogue.library")
assert seam.late(None, library) is None
sys.modules["quack.epilogue.library"] = types.ModuleType("quack.epilogue.library")
assert seam.late(None, library) == "quack.epilogue.library is already imported"
"""
    passes(code)


@pytest.mark.slow
def test_the_method_of_operators_is_never_late() -> None:
    passes(f"{BEGIN}\nimport cutlass.operators\nassert list(attach(['cutlass_operators']).libraries)")


def test_a_mapping_is_replaced_in_its_function_wherever_that_is_held(site: Path) -> None:
    seam = f"CacheAttribute('{PACKAGE}.kernels', 'compile_cache')"
    passes(f"{BEGIN}\nfrom minilib.calls_front_end import front_end\nbegin({seam})\nfrozen(front_end, 1)", path=[site])
    late = "minilib.mapping has taken minilib.kernels:front_end.compile_cache already"
    passes(f"{BEGIN}\nimport minilib.mapping\nrefused({late!r}, {seam})", path=[site])


def test_a_recording_replaces_the_function_too(site: Path) -> None:
    seam = f"CacheAttribute('{PACKAGE}.kernels', 'compile_cache')"
    late = "minilib.calls_front_end has taken minilib.kernels:front_end already"
    passes(f"{BEGIN}\nimport minilib.calls_front_end\nrefused({late!r}, {seam}, mode='record')", path=[site])
    passes(f"{BEGIN}\nimport minilib.kernels\nbegin({seam}, mode='record')", path=[site])


def test_a_variable_that_a_module_may_have_read(site: Path) -> None:
    variables = "environment={'MINILIB_DISK_CACHE': '0'}"
    elsewhere = f"{BEGIN}\nimport minilib.kernels\nbegin({variables})\nassert os.environ['MINILIB_DISK_CACHE'] == '0'"
    passes(elsewhere, path=[site])
    text = "minilib.disk is already imported, and may have read MINILIB_DISK_CACHE, which was not set"
    passes(f"{BEGIN}\nimport minilib.disk\nrefused({text!r}, {variables})", path=[site])
    is_set = f"{BEGIN}\nos.environ['MINILIB_DISK_CACHE'] = '1'\nimport minilib.disk\nbegin({variables})"
    passes(f"{is_set}\nassert os.environ['MINILIB_DISK_CACHE'] == '1'", path=[site])


METHODS = """
class cute:
    compile = staticmethod(lambda *arguments: ("compiled", *arguments))

class Owner:
    @staticmethod
    def plain(n): return cute.compile(n)

    @classmethod
    def of_class(cls, n): return cute.compile(n)

    def filing(self, n):
        self.filed = {n: ("compiled", n)}
        return self.filed[n]
"""


@pytest.mark.parametrize("name", ["plain", "of_class", "filing"])
@pytest.mark.parametrize("taken", ["", "Owner.{}", "vars(Owner)['{}']", "Owner().{}"])
def test_a_method_that_only_its_class_has_is_replaced(name: str, taken: str, tmp_path: Path) -> None:
    seam = "KeyedMethods({'minilib.methods:Owner.filing': Keyed(filed=('filed',))})"
    seam = seam if name == "filing" else f"ClassMethods('{PACKAGE}')"
    site = write_library(tmp_path, {f"{PACKAGE}/methods.py": METHODS, f"{PACKAGE}/holder.py": ""})
    code = f"{BEGIN}\nfrom minilib import holder\nfrom minilib.methods import Owner\n"
    if taken:
        code += f"holder.f = {taken.format(name)}\n"
        passes(f"{code}\nrefused('has taken minilib.methods:Owner.{name} already', {seam})", path=[site])
    else:
        passes(f"{code}\nbegin({seam})\nfrozen(Owner().{name}, 1)", path=[site])


def test_a_module_that_is_being_imported(site: Path) -> None:
    code = f"""{BEGIN}
import types
begin_now = lambda: refused("minilib.attaches is being imported", {FUNCTION_SEAMS[0]})
sys.modules["begin"] = types.SimpleNamespace(begin=begin_now)
import minilib.attaches
begin({FUNCTION_SEAMS[0]})
"""
    passes(code, path=[site])


def test_a_refused_call_changes_no_library_of_it(site: Path) -> None:
    code = f"""{BEGIN}
import minilib.jit
from minilib import kernels
before = id(kernels.compiled)
gone = "minilib.kernels has no gone: mine is declared for another version"
refused(gone, {FUNCTION_SEAMS[0]}, Functions("minilib.kernels", ("gone",)))
refused("minilib.jit is already imported", {FUNCTION_SEAMS[0]}, Decorator("minilib.jit", "jit_cache"))
assert id(kernels.compiled) == before

first = begin(mode="serve")
good = Library(name="good", distribution="minilib", package="minilib", seams=({FUNCTION_SEAMS[0]},))
late = Library(name="late", distribution="minilib", package="minilib", seams=(Decorator("minilib.jit", "jit_cache"),))
try: attach([good, late], mode="frozen")
except ConfigError: pass
else: raise AssertionError
assert id(kernels.compiled) == before and list(first.libraries) == ["mine"] and first.mode == "serve"
"""
    passes(code, path=[site])


def test_a_kind_of_seam_that_does_not_say_when_it_is_late(site: Path) -> None:
    own = f"{BEGIN}\nclass Own(Seam):\n    def install(self, attachment, library): pass\n"
    passes(f"{own}\nimport minilib.kernels\nrefused('minilib is already imported', Own())", path=[site])
    passes(f"{own}\nimport engine\nbegin(Own())", path=[site])


def test_placeholders_come_before_every_module_of_the_library(site: Path) -> None:
    code = f"""{BEGIN}
sys.path[:] = [folder for folder in sys.path if "nvidia_cutlass_dsl" not in folder]
import minilib
try: attach([Library(name="mine", distribution="d", package="minilib", seams=())], without_compiler=True)
except ConfigError as error: assert "minilib is already imported, without the names of the DSL" in str(error), error
else: raise AssertionError
assert not importers.is_installed()
"""
    passes(code, path=[site])
