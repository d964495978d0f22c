"""Attach's yardstick: each call uses the kernel that the unattached program would have used in that process.

Programs call the compile functions of a little library, with arguments of odd kinds, and between the calls change what
a kernel may depend on: globals, defaults, code, closures, classes, files, variables. Each runs attached and unattached.
The compiler is a double, whose PTX is a text of all that it got, so that thousands of programs are cheap; what is
attached finds, reads and checks facts as it does with the real one (``test_kernel_facts`` has real kernels).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precast.attach.attachment import Attachment, KernelMissing, Mode
from precast.attach.builder.child.facts.kernel_facts import kernel_facts
from precast.attach.guards import BY_MODULE, Guard
from precast.attach.library import Library
from precast.attach.recordings.kernel_facts import parse_facts
from precast.attach.recordings.key_reader import decode
from precast.attach.recordings.keys import canonical
from precast.attach.recordings.provenance import SOURCE, VERSION
from precast.build.child.requests import Requests
from precast.loader.errors import PrecastError
from tests.helpers.attach.mini_library import write_library
from tests.helpers.attach.yard_library import FILES, LIBRARY, NAME

Modules = Any
Program = list[Any]
NAN = float("nan")

ARGUMENTS: Mapping[str, Callable[[Modules], Any]] = {
    **{repr(one): functools.partial(lambda value, kernels: value, one) for one in (1, 2, True, 1.0, 0, 0.0, -0.0)},
    "nan": lambda kernels: NAN,
    "-nan": lambda kernels: math.copysign(NAN, -1),
    "tuple": lambda kernels: (1, 2),
    "tuple of bool": lambda kernels: (True, 2),
    "list": lambda kernels: [1, 2],
    "dict": lambda kernels: {"a": 1, "b": 2},
    "dict in another order": lambda kernels: {"b": 2, "a": 1},
    "enum": lambda kernels: kernels.Level.LOW,
    "dataclass": lambda kernels: kernels.Config(1),
    "dataclass of bool": lambda kernels: kernels.Config(True),
    "dataclass of a list": lambda kernels: kernels.Config([1]),
    "of a dynamic subclass": lambda kernels: same_name(kernels.Config)(1),
    "dynamic subclass": lambda kernels: same_name(kernels.Config),
    "class": lambda kernels: kernels.Config,
    "function": lambda kernels: kernels.double,
    "wrapper": lambda kernels: kernels.score,
    "wrapped": lambda kernels: kernels.score.__wrapped__,
    "text": lambda kernels: "$float:nan",
}  # fmt: skip
FUNCTIONS = ("cached", "bounded", "fresh", "kept", "decorated", "front", "of_class", "of_subclass")


def same_name(owner: type) -> type:
    return type(
        owner.__name__, (owner,), {"__module__": owner.__module__, "__qualname__": owner.__qualname__, "extra": 1}
    )


def _replace(function: Any, **parts: Any) -> None:
    function.__code__ = function.__code__.replace(**parts)


def _cell(function: Any, name: str, value: Any) -> None:
    function.__closure__[function.__code__.co_freevars.index(name)].cell_contents = value


def _edit(parts: Any, name: str, old: str, new: str, *, keep_time: bool = False) -> None:
    file = Path(parts.__file__).parent / name
    was = file.stat()
    file.write_text(file.read_text().replace(old, new))
    if keep_time:
        os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


def _save(parts: Any) -> None:
    importlib.import_module("numpy").save(Path(parts.__file__).parent / "numbers.npy", [3, 4])


def _module(name: str) -> Any:
    return importlib.import_module(f"{NAME}.{name}")


def _reload(parts: Any, kernels: Any) -> None:
    _edit(parts, "parts.py", "return 5", "return 6", keep_time=True)
    importlib.invalidate_caches()
    importlib.reload(parts)


HARMLESS: Mapping[str, Callable[[Modules, Modules], Any]] = {
    "nothing": lambda parts, kernels: None,
    "a global that nothing reads": lambda parts, kernels: setattr(parts, "UNUSED", 2),
    "a method that nothing calls": lambda parts, kernels: setattr(parts.Settings, "unused", lambda self: 1),
    "a table that is filled": lambda parts, kernels: parts.SEEN.update(more=1),
    "a count": lambda parts, kernels: setattr(parts, "CALLS", 100),
    "a count of a class": lambda parts, kernels: setattr(parts.Settings, "hits", 100),
    "a module": lambda parts, kernels: _module("later"),
    "a wrapper that logs": lambda parts, kernels: setattr(parts, "ports", _module("jit").logging(parts.ports)),
}
CHANGES: Mapping[str, Callable[[Modules, Modules], Any]] = {
    "a global": lambda parts, kernels: setattr(parts, "OFFSET", 2),
    "a global, back": lambda parts, kernels: setattr(parts, "OFFSET", 1),
    "a default": lambda parts, kernels: setattr(parts.weight.__wrapped__, "__defaults__", (4,)),
    "a default by name": lambda parts, kernels: setattr(parts.weight.__wrapped__, "__kwdefaults__", {"more": 2}),
    "code": lambda parts, kernels: setattr(parts.height, "__code__", (lambda: 6).__code__),
    "constants of code": lambda parts, kernels: _replace(parts.height, co_consts=(None, 9)),
    "a decorator's cell": lambda parts, kernels: _cell(parts.weight, "by", 5),
    "a closure's cell": lambda parts, kernels: _cell(parts.depth, "k", 5),
    "another closure": lambda parts, kernels: setattr(parts, "depth", parts.made(6)),
    "an attribute of a class": lambda parts, kernels: setattr(parts.Settings, "tile", 2),
    "a list of a class": lambda parts, kernels: parts.Settings.tiles.append(3),
    "a method": lambda parts, kernels: setattr(parts.Settings, "rows", lambda self: 9),
    "a static method": lambda parts, kernels: setattr(parts.Settings, "cols", staticmethod(lambda: 9)),
    "a property": lambda parts, kernels: setattr(parts.Settings, "lanes", property(lambda self: 9)),
    "a cached property": lambda parts, kernels: setattr(parts.Settings.banks, "func", lambda self: 9),
    "what a cached property reads": lambda parts, kernels: setattr(parts, "BANKS", 64),
    "an attribute of an object": lambda parts, kernels: setattr(parts.OPTIONS, "stages", 2),
    "a text file": lambda parts, kernels: _edit(parts, "table.json", "1", "2", keep_time=True),
    "a file of numbers": lambda parts, kernels: _save(parts),
    "a source file": lambda parts, kernels: _edit(parts, "parts.py", "OFFSET = 1", "OFFSET = 3"),
    "a source file, read again": _reload,
    "a variable": lambda parts, kernels: os.environ.__setitem__("YARDLIB_LEVEL", "7"),
    "no variable": lambda parts, kernels: os.environ.pop("YARDLIB_LEVEL", None),
    "a default of an argument": lambda parts, kernels: setattr(kernels.double, "__defaults__", (3,)),
    "a wrapper's cell": lambda parts, kernels: _cell(kernels.score, "by", 4),
    "a default of the cached": lambda parts, kernels: setattr(inspect.unwrap(kernels.cached), "__defaults__", (32,)),
    "a default of the fresh": lambda parts, kernels: setattr(inspect.unwrap(kernels.fresh), "__defaults__", (32,)),
    "a default of the kept": lambda parts, kernels: setattr(inspect.unwrap(kernels.kept), "__defaults__", (32,)),
    "a cleared cache": lambda parts, kernels: (kernels.cached.cache_clear(), kernels.decorated.cache_clear()),
    "a wrapper": lambda parts, kernels: setattr(parts, "height", functools.wraps(parts.height)(lambda: 9)),
    "another wrapper": lambda parts, kernels: setattr(parts, "ports", functools.wraps(parts.ports)(lambda: 9)),
    **HARMLESS,
}  # fmt: skip
CALLS = st.tuples(
    st.just("call"), st.sampled_from(FUNCTIONS), st.lists(st.sampled_from(sorted(ARGUMENTS)), min_size=1, max_size=2),
    st.sampled_from(["", "by name", "more", "more in another order"]),
)  # fmt: skip
PROGRAMS = st.lists(st.one_of(CALLS, CALLS, st.tuples(st.just("change"), st.sampled_from(sorted(CHANGES)))), max_size=9)


def _call(kernels: Any, name: str, arguments: list[str], how: str) -> Any:
    owner = {"of_class": kernels.Operator, "of_subclass": same_name(kernels.Operator)}.get(name)
    function = getattr(kernels, name) if owner is None else owner.of_class
    values = [ARGUMENTS[one](kernels) for one in arguments]
    if how == "by name":
        return function(**dict(zip(("n", "tile"), values, strict=False)))
    more = {"x": 1, "y": 2} if how and name in ("cached", "fresh") else {}
    return function(*values, **(dict(reversed(more.items())) if "another" in how else more))


class Site:
    """The library's folder; its files are as they were written at the start of each program."""

    def __init__(self, folder: Path) -> None:
        write_library(folder, FILES, package=NAME, distribution=NAME)
        importlib.import_module("numpy").save(folder / NAME / "numbers.npy", [1, 2])
        self.files = {path: path.read_bytes() for path in (folder / NAME).iterdir() if path.is_file()}
        self.requests = Requests().install()
        self.built: dict[tuple[str, str], tuple[str, Any]] = {}
        self.ends: Counter[str] = Counter()

    def begin(self) -> None:
        os.environ.pop("YARDLIB_LEVEL", None)
        for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[name]
        for path, content in self.files.items():
            if path.read_bytes() != content:
                path.write_bytes(content)
        importlib.invalidate_caches()

    def unattached(self, program: Program) -> list[str]:
        """The PTX of each call."""
        self.begin()
        return list(_run(program))

    def attached(self, program: Program, mode: Mode, requested: list[Any] | None = None) -> list[str]:
        """The PTX of each call where kernels come from what was built; what else is requested is added to a list."""
        self.begin()
        finders = list(sys.meta_path)
        try:
            attachment = _Attachment(self, mode, requested)
            for seam in LIBRARY.seams:
                seam.install(attachment, LIBRARY)
            return list(_run(program))
        finally:
            sys.meta_path[:] = finders

    def build(self, path: str, config: Mapping[str, Any]) -> None:
        """A kernel for a key and its facts, as a worker makes them, in modules that no program has changed."""
        if (path, canonical(config)) in self.built:
            return
        self.begin()
        self.requests.begin()
        arguments = {name: decode(form) for name, form in config.items() if name not in (VERSION, SOURCE)}
        module, _, names = path.partition(":")
        roots: list[Any] = [importlib.import_module(module)]
        for name in names.split("."):
            roots.append(getattr(roots[-1], name))
        if "key" in arguments:
            compiled = roots[-1](*arguments["key"])
        else:
            function = inspect.unwrap(roots[-1])
            bound = inspect.signature(function).bind_partial()
            bound.arguments.update(arguments)
            try:
                compiled = function(*bound.args, **bound.kwargs)
            except TypeError:  # an argument without a hash: it cannot be built
                return
        facts = kernel_facts(roots[1:], NAME, config, requests=self.requests.all, compiling=self.requests.recent)
        self.built[path, canonical(config)] = compiled.ptx, parse_facts(json.loads(json.dumps(facts.to_json())))


class _Attachment(Attachment):
    """Gets its kernels from what a site has built."""

    def __init__(self, site: Site, mode: Mode, requested: list[Any] | None) -> None:
        super().__init__(mode)
        self._site, self._requested, self._warned = site, requested, True

    def _guard(self, library: Library) -> Guard:
        return Guard(version="1.0", source=BY_MODULE)

    def obtain(self, library: Library, function: str, arguments: Mapping[str, Any], **how: Any) -> Any:
        self._function = function
        return super().obtain(library, function, arguments, **how)

    def _objects(self, op: str, config: Mapping[str, Any]) -> list[Any]:
        if self._requested is not None:
            self._requested.append((self._function, json.loads(canonical(config))))
        ptx, facts = self._site.built.get((self._function, canonical(config)), ("", None))
        reason = "it is not built" if facts is None else self._facts.difference(facts)
        self._site.ends[reason or "served"] += self._requested is None
        if reason:
            raise PrecastError(reason)
        return [SimpleNamespace(ptx=ptx)]

    def _as_returned(self, kernels: list[Any], library: Library, fallback: Any) -> Any:
        return kernels[0]


def _run(program: Program) -> Iterator[str]:
    parts, kernels = importlib.import_module(f"{NAME}.parts"), importlib.import_module(f"{NAME}.kernels")
    for what, *step in program:
        if what == "change":
            CHANGES[step[0]](parts, kernels)
            continue
        try:
            yield _call(kernels, *step).ptx
        except KernelMissing:
            return
        except TypeError as error:  # such as an argument without a hash
            yield str(error)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("yard")
    environment: Any = type(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(environment, "__getitem__", environment.__getitem__)
        patch.setattr(sys, "dont_write_bytecode", True)  # the same size and second would be the same byte code
        made = Site(folder)
        yield made
        made.begin()
        patch.setattr(made.requests, "_note", lambda *_: None)  # its hook cannot be removed


def check(site: Site, program: Program) -> None:
    expected = site.unattached(program)
    requested: list[Any] = []
    site.attached(program, "serve", requested)
    with ThreadPoolExecutor(1) as thread:  # below its frames no module is imported, as below those of a test process
        for path, config in requested:
            thread.submit(site.build, path, config).result()
    for mode in ("serve", "frozen"):
        found = site.attached(program, mode)
        assert len(found) == len(expected) or mode == "frozen", "it ends with the first kernel that is refused"
        for step, (actual, ptx) in enumerate(zip(found, expected, strict=False)):
            assert actual == ptx or "unhashable" in ptx, (mode, step, program)


def call(name: str, *arguments: str, how: str = "") -> Any:
    return "call", name, list(arguments), how


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_calls(site: Site, change: str) -> None:
    first = [call(name, "1") for name in FUNCTIONS]
    check(site, [*first, ("change", change), *first, *[call(name, "2", "function") for name in FUNCTIONS], *first])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_alike_arguments(site: Site, name: str) -> None:
    calls = [call(name, one) for one in ARGUMENTS]
    check(site, [*calls, *reversed(calls)])
    check(site, [*reversed(calls), *calls])


def test_kernels_are_served(site: Site) -> None:
    before = site.ends["served"]
    check(site, [call(name, "1") for name in FUNCTIONS])
    assert site.ends["served"] - before == 2 * (len(FUNCTIONS) - 1), "all but of a class without a name of its own"


@pytest.mark.parametrize("change", HARMLESS)
def test_what_no_kernel_depends_on_refuses_none(site: Site, change: str) -> None:
    before = site.ends.copy()
    names = [name for name in FUNCTIONS if name != "of_subclass"]
    check(site, [*[call(name, "1") for name in names], ("change", change), *[call(name, "2") for name in names]])
    assert set(site.ends - before) == {"served"}


def test_a_default_that_a_call_makes_is_no_fact(site: Site) -> None:
    """It may be a number of the DSL, in place of which a process without the DSL has a plain one."""
    check(site, [call("cached", "1")])
    facts = next(facts for (path, _), (_, facts) in site.built.items() if path.endswith("cached"))
    names = facts.globals[f"{NAME}.parts"].names
    assert "width" in names and {"weight()", "depth()"} <= set(names)


@settings(max_examples=30, deadline=None)
@given(PROGRAMS)
def test_programs(site: Site, program: Program) -> None:
    check(site, program)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(PROGRAMS)
def test_many_programs(site: Site, program: Program) -> None:
    check(site, program)
