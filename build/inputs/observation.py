"""Observations: what a child process reports to have read. It runs an author's code, so the report is checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from precast.build.inputs.stamp import Stamp
from precast.loader.contract.format import fields
from precast.loader.errors import FormatError

Row = TypeVar("Row")

_MOST = 200_000
_LONGEST = 8192
_KINDS = (
    "file",
    "folder",
    "exists",
    "link",
    "variable",
    "variables",
    "library",
    "program",
    "distribution",
    "distributions",
    "clock",
    "randomness",
    "network",
    "process",
    "host",
    "undeclared",
)


class Ask(NamedTuple):
    """A request of some code, and the location of that code; without a file for the import system."""

    kind: str
    what: str
    file: str
    line: int


class LoadedModule(NamedTuple):
    """A module of the process; a namespace package has no file."""

    name: str
    file: str | None
    package: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one compilation read.

    ``native`` has the requests of native code, with the library as their location, and of programs that were started,
    with the code that started them. ``digests`` has the content of small files of authors, ``missing`` the modules that
    were not found, ``libraries`` the files of mapped libraries, ``path`` Python's path at the end, ``relative`` the
    paths that code named relative to the working folder of the build; ``complete`` means that nothing was left out.

    >>> Observation.parse({"asked": [["variable", "TILE", "/k/norm.py", 3]], "native": [], "stamps": {}, "digests": {},
    ...                    "modules": [], "missing": [], "libraries": [], "path": [], "relative": [],
    ...                    "complete": True}).asked[0].what
    'TILE'
    """  # words: allow

    asked: tuple[Ask, ...]  # words: allow
    native: tuple[Ask, ...]
    stamps: Mapping[str, Stamp | None]
    digests: Mapping[str, str]
    modules: tuple[LoadedModule, ...]
    missing: tuple[str, ...]
    libraries: tuple[str, ...]
    path: tuple[str, ...]
    relative: frozenset[str] = frozenset()
    complete: bool

    def and_then(self, later: Observation) -> Observation:
        """This observation, joined with a later one of the same process."""
        return Observation(
            asked=self.asked + later.asked,
            native=self.native + later.native,
            stamps={**self.stamps, **later.stamps},
            digests={**self.digests, **later.digests},
            modules=self.modules + later.modules,
            missing=self.missing + later.missing,
            libraries=self.libraries + later.libraries,
            path=later.path,
            relative=self.relative | later.relative,
            complete=self.complete and later.complete,
        )

    @classmethod
    def parse(cls, value: object) -> Observation:
        """Read what ``Observer.observed`` gave; raises FormatError."""
        names = (
            "asked", "native", "stamps", "digests", "modules", "missing", "libraries", "path", "relative", "complete",
        )  # fmt: skip
        data = fields.known(fields.as_object(value), names)
        return cls(
            asked=_rows(data, "asked", 4, _ask),
            native=_rows(data, "native", 4, _ask),
            stamps={_absolute(path): stamp for path, stamp in fields.table(data, "stamps", _stamp, most=_MOST).items()},
            digests=fields.table(data, "digests", _text, most=_MOST),
            modules=_rows(data, "modules", 3, _module),
            missing=fields.items(data, "missing", _text, most=_MOST),
            libraries=fields.items(data, "libraries", _absolute, most=_MOST),
            path=fields.items(data, "path", _text, most=_MOST),
            relative=frozenset(fields.items(data, "relative", _absolute, most=_MOST)),
            complete=fields.get(data, "complete", bool),
        )


def _rows(data: fields.Object, name: str, size: int, parse: Callable[..., Row]) -> tuple[Row, ...]:
    """A list of rows, each read by ``parse``, which caches: most rows are as in the last observation."""

    def row(value: object) -> Row:
        if not isinstance(value, list) or len(value) != size:
            raise FormatError(f"expected a list of {size}")
        if not all(item is None or isinstance(item, (str, int)) for item in value):
            raise FormatError("expected texts and whole numbers")
        return parse(*value)

    return fields.items(data, name, row, most=_MOST)


@functools.lru_cache(maxsize=1 << 15, typed=True)
def _ask(kind: object, what: object, file: object, line: object) -> Ask:
    if kind not in _KINDS:
        raise FormatError(f"{str(kind)[:80]!r} is not one of {', '.join(_KINDS)}")
    if file != "":
        _absolute(file)
    if kind in ("file", "folder", "exists", "link"):
        _absolute(what)
    return Ask(str(kind), _text(what), _text(file), _number(line))


@functools.lru_cache(maxsize=1 << 15, typed=True)
def _module(name: object, file: object, package: object) -> LoadedModule:
    if not isinstance(package, bool):
        raise FormatError("expected bool")
    return LoadedModule(_text(name), None if file is None else _absolute(file), package)


def _stamp(value: object) -> Stamp | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 4:
        raise FormatError("expected a list of 4")
    first, second, third, fourth = map(_number, value)
    return (first, second, third, fourth)


def _number(value: object) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise FormatError("expected a whole number")
    return value


def _text(value: object) -> str:
    text = fields.text(value)
    surrogates = not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
    if len(text) > _LONGEST or "\0" in text or surrogates:
        raise FormatError("a text is too long, or has characters that no name has")
    return text


def _absolute(value: object) -> str:
    return _absolute_path(_text(value))


@functools.lru_cache(maxsize=1 << 15)
def _absolute_path(text: str) -> str:
    if not text.startswith("/"):
        raise FormatError(f"{text[:80]!r} is not an absolute path")
    return text
