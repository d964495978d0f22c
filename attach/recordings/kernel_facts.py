"""Kernel facts: what decided the kernel of an attached library beside its key.

A worker of the build finds them when the library's function has compiled, and the index keeps them with the artifact.
The kernel is served only where they hold: environment variables that the library's code has read, the modules whose
code it uses, in whichever distribution, the data files that they read, and the globals of modules, the functions and
the classes that a program may have changed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MemberDescriptorType
from typing import Any

from precast.attach.recordings.function_state import state_of_function
from precast.attach.recordings.keys import UnknownKey, canonical, encode
from precast.loader.contract.format import fields
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

MOST = 1000
WHOLE = "()"
"""The end of the name of a function whose defaults and closure are facts, too."""
BARE = "(*)"
"""The end of the name of a function that a decorator left as it is, or that one wraps which takes more than constants.
Where a variable says so, such a decorator logs calls: a wrapper of the function's own package is not a fact."""
_LONGEST = 4096
_SHA256 = 64  # digits
_ABSENT = object()
_FIELDS = ("variables", "packages", "modules", "files", "globals")


class Package(Immutable, kw_only=True):
    """A distribution that a package of modules is of, and its version."""

    distribution: str
    version: str

    def to_json(self) -> dict[str, str]:
        """The package as JSON."""
        return {"distribution": self.distribution, "version": self.version}

    @classmethod
    def parse(cls, value: object) -> Package:
        """Read what ``to_json`` gave, each part checked."""
        data = fields.known(fields.as_object(value), ("distribution", "version"))
        return cls(**{name: fields.parsed(data, name, _text) for name in ("distribution", "version")})


class Globals(Immutable, kw_only=True):
    """Globals of one module, in the order of their names, and the digest of what they were; after it stand two digits
    for each, to tell which has changed. ``STATE.tile`` names an attribute of a global, ``scaled()`` a function with its
    defaults and what its closure holds."""

    names: tuple[str, ...]
    digest: str

    @classmethod
    def of(cls, names: tuple[str, ...], values: Mapping[str, Any]) -> Globals:
        """These globals of a module as they are now. One that is missing, or has no form, differs from all others.

        >>> Globals.of(("TILE",), {"TILE": 64}) == Globals.of(("TILE",), {"TILE": 64, "OTHER": 1})
        True
        """
        parts = [name.partition("(") for name in names]
        forms = (_form_of(find_global(path, values), f"{bracket}{rest}") for path, bracket, rest in parts)
        texts = [f"{name}={form}\n".encode() for name, form in zip(names, forms, strict=True)]
        hints = "".join(f"{zlib.crc32(text) & 255:02x}" for text in texts)
        return cls(names=names, digest=hashlib.sha256(b"".join(texts)).hexdigest() + hints)

    def changed(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Those that a module no longer has as they were; all, where the digits do not tell.

        >>> Globals.of(("TILE", "WIDTH"), {"TILE": 64, "WIDTH": 1}).changed({"TILE": 32, "WIDTH": 1})
        ('TILE',)
        """
        now = Globals.of(self.names, values).digest
        if now == self.digest:
            return ()
        hints = zip(self.names, _hints(self.digest), _hints(now), strict=False)
        return tuple(name for name, was, here in hints if was != here) or self.names

    def to_json(self) -> dict[str, str]:
        """The globals as JSON."""
        return {"names": " ".join(self.names), "digest": self.digest}

    @classmethod
    def parse(cls, value: object) -> Globals:
        """Read what ``to_json`` gave, each part checked."""
        data = fields.known(fields.as_object(value), ("names", "digest"))
        names = fields.parsed(data, "names", fields.text)
        return cls(names=tuple(names.split()), digest=fields.parsed(data, "digest", _text))


def _hints(digest: str) -> list[str]:
    return [digest[start : start + 2] for start in range(_SHA256, len(digest), 2)]


def held(value: Any) -> Mapping[str, Any]:
    """What an object or a class itself holds, by name; a context variable its value, as ``get``. None of its code runs.

    >>> held(Package(distribution="acme", version="1"))["version"]
    '1'
    """
    if isinstance(value, type):
        return vars(value)
    if isinstance(value, ContextVar):
        return {"get": value.get(_ABSENT)}
    slots = {
        name: member.__get__(value)
        for owner in type(value).__mro__
        for name, member in vars(owner).items()
        if isinstance(member, MemberDescriptorType) and _is_set(member, value)
    }
    try:
        return {**slots, **object.__getattribute__(value, "__dict__")}
    except AttributeError:
        return slots


def _is_set(member: MemberDescriptorType, value: object) -> bool:
    try:
        member.__get__(value)
    except AttributeError:
        return False
    return True


def find_global(path: str, values: Mapping[str, Any]) -> Any:
    """The value of a global or of its attribute; a value of its own where there is none.

    >>> find_global("Globals.parse", {"Globals": Globals}) is vars(Globals)["parse"]
    True
    """
    name, *rest = path.split(".")
    value = values.get(name, _ABSENT)
    for part in rest:
        value = held(value).get(part, _ABSENT)
    return value


def _form_of(value: Any, mark: str) -> str:
    if value is _ABSENT:
        return "absent"
    state = state_of_function(value, whole=mark == WHOLE, bare=mark == BARE)
    try:
        return canonical(state or encode(value))
    except (UnknownKey, RecursionError):
        return "none"


class KernelFacts(Immutable, kw_only=True):
    """The facts of one kernel: variables with their values (None: not set), packages by name, modules and data files
    with their digests, and globals by module. A file is named by its package and its path in it.

    >>> facts = KernelFacts.parse({"variables": {"ACME_TILE": "64"}, "packages": {}, "modules": {}})
    >>> list(facts.changed_variables({"ACME_TILE": "64"})), list(facts.changed_variables({}))
    ([], ['ACME_TILE'])
    """

    variables: Mapping[str, str | None]
    packages: Mapping[str, Package]
    modules: Mapping[str, str]
    files: Mapping[str, str] = {}
    globals: Mapping[str, Globals] = {}

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON, sorted."""
        return {
            "variables": dict(sorted(self.variables.items())),
            "packages": {name: package.to_json() for name, package in sorted(self.packages.items())},
            "modules": dict(sorted(self.modules.items())),
            "files": dict(sorted(self.files.items())),
            "globals": {name: some.to_json() for name, some in sorted(self.globals.items())},
        }

    @classmethod
    def parse(cls, value: object) -> KernelFacts:
        """Read what ``to_json`` gave; raises FormatError."""
        data = fields.known(fields.as_object(value), _FIELDS)
        return cls(
            variables=fields.table(data, "variables", _value, most=MOST),
            packages=fields.table(data, "packages", Package.parse, most=MOST),
            modules=fields.table(data, "modules", _text, most=MOST),
            files=fields.table(data, "files", _text, most=MOST) if "files" in data else {},
            globals=fields.table(data, "globals", Globals.parse, most=MOST) if "globals" in data else {},
        )

    def changed_variables(self, environment: Mapping[str, str]) -> Iterator[str]:
        """The variables that have another value in an environment."""
        return (name for name, value in self.variables.items() if environment.get(name) != value)


def parse_facts(value: object) -> KernelFacts | None:
    """The facts of a kernel; None where a build found none, as for a kernel of one's own.

    >>> parse_facts(None) is None
    True
    """
    return None if value is None else KernelFacts.parse(value)


def _value(value: object) -> str | None:
    return None if value is None else _text(value)


def _text(value: object) -> str:
    text = fields.text(value)
    if len(text) > _LONGEST:
        raise FormatError(f"a text of {len(text)} characters, more than the limit of {_LONGEST}")
    return text
