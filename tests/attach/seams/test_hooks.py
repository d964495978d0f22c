"""Hooks: each kind of seam, on a little library that is imported after it was attached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attach.mini_library import PACKAGE, write_library
from tests.helpers.attached import key_of, passes, write_cache
from tests.helpers.caches import Native

ATTACH = f"""
from precast.loader import attach
from precast.attach import *
from precast.loader.launch.kernel import Kernel

def begin(*seams, **more):
    mine = Library(name="mine", distribution="{PACKAGE}", package="{PACKAGE}", seams=seams)
    return attach([mine], target="sm_90a", **more)
"""


FILES = {
    f"{PACKAGE}/jit.py": """
import functools
def jit_cache(function):
    return functools.cache(function)
""",
    f"{PACKAGE}/kernels.py": """
from minilib.jit import jit_cache

class cute:
    compile = staticmethod(lambda *arguments: ("compiled", *arguments))

@jit_cache
def decorated(n, flag=False):
    if n < 0:
        raise ValueError("negative")
    return ("compiled", n, flag)

def plain(n, flag=False):
    return cute.compile(n, flag)

def other(n, flag=False):
    return ("other", n, flag)

def front_end(x, n):
    key = (n, "k")
    if key not in front_end.compile_cache:
        front_end.compile_cache[key] = ("compiled", key)
    return front_end.compile_cache[key]

front_end.compile_cache = {}
""",
    f"{PACKAGE}/kept.py": """
KEPT = {}
def look(key):
    return KEPT.get(key)
""",
    f"{PACKAGE}/sharing.py": """
from minilib import kept
from minilib.kept import look

def first(x, n):
    kernel = look((n, "k"))
    if kernel is None:
        kernel = kept.KEPT[n, "k"] = ("first", n)
    return kernel

def second(n):
    return look((n, "k")) or ("second", n)
""",
}


@pytest.mark.parametrize(
    ("seam", "name"),
    [
        (f"Decorator('{PACKAGE}.jit', 'jit_cache')", "decorated"),
        (f"Functions('{PACKAGE}.kernels', ('decorated',))", "decorated"),
        (f"CompileFunctions('{PACKAGE}')", "plain"),
    ],
)
def test_a_function_of_a_library(
    seam: str, name: str, native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = write_library(tmp_path / "site", FILES)
    monkeypatch.syspath_prepend(site)
    keys = [key_of({"n": n, "flag": False}) for n in (1, 2)]
    cache = write_cache(native, tmp_path / "cache", f"{PACKAGE}.kernels:{name}", keys)
    code = f"""{ATTACH}
attached = begin({seam})
from minilib import kernels
f = kernels.{name}
assert isinstance(f(1), Kernel) and f(n=1, flag=False) is f(1), f(1)
assert isinstance(f(2), Kernel) and f(2) is not f(1)
assert f(3) == f(3) == ("compiled", 3, False) and f(1, True) == ("compiled", 1, True)
assert kernels.other(1) == ("other", 1, False)
(count,) = attached.counts()
assert (count.function, count.hits, count.misses) == ("minilib.kernels:{name}", 2, 2), count
assert any("n is" in reason for reason in count.reasons), count
if hasattr(f, "cache_clear"): f.cache_clear()
assert isinstance(f(1), Kernel)
if "{name}" == "decorated":
    try: f(-1)
    except ValueError as error: assert error.args == ("negative",)
    else: raise AssertionError
attach(mode="frozen", libraries=[])
assert isinstance(f(1), Kernel)
try: f(3)
except KernelMissing as error: assert "n: 3" in str(error)
else: raise AssertionError
"""
    passes(code, path=[site], cache=cache)


def test_a_mapping_of_a_library(native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write_library(tmp_path / "site", FILES)
    monkeypatch.syspath_prepend(site)
    cache = write_cache(native, tmp_path / "cache", f"{PACKAGE}.kernels:front_end", [key_of({"key": (1, "k")})])
    code = f"""{ATTACH}
import json, pathlib, sys
attached = begin(CacheAttribute("minilib.kernels", "compile_cache"), mode=sys.argv[1] if sys.argv[1:] else "serve",
                 recording="{tmp_path}/recording")
from minilib.kernels import front_end
assert isinstance(front_end("x", 1), Kernel) and front_end("x", n=1) is front_end("x", 1)
assert front_end("x", 2) == ("compiled", (2, "k"))
(count,) = attached.counts()
assert (count.hits, count.misses) == (1, 1), count
"""
    passes(code, path=[site], cache=cache)
    passes(code.replace('sys.argv[1] if sys.argv[1:] else "serve"', '"record"'), path=[site], cache=cache)
    recorded = (tmp_path / "recording").read_text()
    assert '"call":{"n":1,"x":"x"}' in recorded and '"call":{"n":2,"x":"x"}' in recorded


def test_a_mapping_that_several_functions_share(
    native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each function has keys of its own, and the call of the one that runs is recorded. What is served for a key is
    everybody's, as what one of them compiles is."""
    site = write_library(tmp_path / "site", FILES)
    monkeypatch.syspath_prepend(site)
    cache = write_cache(native, tmp_path / "cache", f"{PACKAGE}.sharing:first", [key_of({"key": (1, "k")})])
    code = f"""{ATTACH}
import sys
seam = SharedMapping("minilib.kept", "KEPT", lookup="look", package="minilib")
attached = begin(seam, mode="serve", recording="{tmp_path}/recording")
from minilib import kept
from minilib.sharing import first, second
assert isinstance(first("x", 1), Kernel) and first("x", n=1) is first("x", 1)
assert second(3) == ("second", 3) and kept.look((3, "k")) is None  # nobody's call
assert first("x", 2) == ("first", 2) and kept.look((2, "k")) == ("first", 2)
assert [(c.function, c.hits, c.misses) for c in attached.counts()] == [
    ("minilib.sharing:first", 1, 1), ("minilib.sharing:second", 0, 1)], attached.counts()
"""
    passes(code + 'assert second(1) is kept.look((1, "k")) is first("x", 1)', path=[site], cache=cache)
    passes(code.replace('mode="serve"', 'mode="record"'), path=[site], cache=cache)
    recorded = (tmp_path / "recording").read_text()
    assert '"call":{"n":2,"x":"x"}' in recorded and '"compile":"minilib.sharing:second"' in recorded


@pytest.mark.parametrize(
    "seam", [f"Decorator('{PACKAGE}.kernels', 'gone')", f"Functions('{PACKAGE}.kernels', ['gone'])"]
)
def test_a_library_without_its_seam_is_an_error_that_says_what_to_do(seam: str, tmp_path: Path) -> None:
    code = f"""{ATTACH}
begin({seam})
try: import minilib.kernels
except Exception as error: assert "another version of minilib: do not attach mine" in str(error), error
else: raise AssertionError
"""
    passes(code, path=[write_library(tmp_path / "site", FILES)])


def test_attaching_again_and_too_late(tmp_path: Path) -> None:
    code = f"""{ATTACH}
from precast.loader.errors import ConfigError

def refused(text, *arguments, **more):
    try: attach(*arguments, **more)
    except ConfigError as error: assert text in str(error), error
    else: raise AssertionError(text)

refused("pass a list, such as ['quack']", "quack")
refused("'nothing' is declared: use one of", ["nothing"])
absent = Library(name="absent", distribution="dist-absent", package="absent_package", seams=())
refused("pip install dist-absent", [absent])
refused("not a mode", [], mode="fast")
assert attached() is None
import sys
first = begin(Decorator("minilib.jit", "jit_cache"), mode="frozen", missing="raise")
assert attached() is first
assert begin(Decorator("minilib.jit", "jit_cache")) is first and (first.mode, first.missing) == ("frozen", "raise")
assert attach([], mode="serve") is first and (first.mode, first.missing) == ("serve", "raise")
refused("separate process", [], mode="record")
refused("another recording or target", [], recording="r")
refused("another recording or target", [], target="sm_100a")
from minilib import kernels
assert attach([]) is first and kernels.decorated.__wrapped__.__closure__ is None
assert begin() is first
seams = (Decorator("minilib.jit", "jit_cache"),)
late = Library(name="late", distribution="minilib", package="minilib", seams=seams)
refused("minilib.jit is already imported: attach late before the first import of minilib", [late])
assert "late" not in first.libraries
"""
    passes(code, path=[write_library(tmp_path / "site", FILES)])
