"""Inputs: what a compilation depends on beside its key, each with a name that is valid on any machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import canonical
from precast.loader.errors import FormatError

MOST = 50_000
_LONGEST = 4096
_ROOT = r"(?:(?:search|site|path)[0-9]{0,3}|~|)"
_PATH = re.compile(rf"{_ROOT}(?:/[^\0]+)?")
_NAMES = {
    "file": _PATH,
    "source": _PATH,
    "folder": _PATH,
    "distribution": re.compile(r"[a-z0-9][a-z0-9-]*"),
    "program": re.compile(r"[^\0/]+"),
}
_ALONE = ("python",)
_NO_FILES = ("/proc/", "/sys/", "/dev/")  # reading one may block forever, or have an effect


@dataclass(frozen=True, slots=True)
class Inputs:
    """Names with their values, sorted. A value is a text, or None for what does not exist.

    - ``file:PATH`` the digest of a file's content; ``folder:PATH`` that of all files in it (``Roots`` has the paths)
    - ``source:PATH`` the digest of the compiled source of a Python file with kernels
    - ``distribution:NAME`` its version and the digest of its files, including those edited in place
    - ``program:NAME`` the digest of the file that the system would start
    - ``python`` the interpreter

    >>> Inputs.of({"program:git": None, "python": "CPython 3.12.1"}).names
    ('program:git', 'python')
    """

    answers: Mapping[str, str | None]

    @classmethod
    def of(cls, answers: Mapping[str, str | None]) -> Inputs:
        """The inputs with these values."""
        return cls(MappingProxyType(dict(sorted(answers.items()))))

    @classmethod
    def parse(cls, value: object) -> Inputs:
        """Read what ``to_json`` gave; raises FormatError."""
        data = fields.as_object(value)
        names = parse_names(list(data))
        return cls.of({name: fields.parsed(data, name, _answer) for name in names})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(self.answers)

    def to_json(self) -> dict[str, str | None]:
        """The inputs as JSON."""
        return dict(self.answers)

    @property
    def digest(self) -> str:
        """The digest of all names and values."""
        return hashlib.sha256(canonical(self.to_json())).hexdigest()

    def split(self) -> tuple[Inputs, Inputs]:
        """The inputs that the author of a kernel may edit, and those of Python and installed packages.

        The first are part of a record's key, and listed in a cache. The second must be unchanged.

        >>> inputs = Inputs.of({"file:search/tiles.json": "0" * 64, "distribution:numpy": "2.0 ..."})
        >>> mine, others = inputs.split()
        >>> mine.names, others.names
        (('file:search/tiles.json',), ('distribution:numpy',))
        """
        first = {
            name: answer for name, answer in self.answers.items() if name.startswith(("file:", "folder:", "source:"))
        }
        return Inputs.of(first), Inputs.of({n: a for n, a in self.answers.items() if n not in first})

    def changed(self, now: Mapping[str, str | None]) -> tuple[str, ...]:
        """The names whose values have changed.

        >>> Inputs.of({"program:git": None}).changed({"program:git": "1"})
        ('program:git',)
        """
        return tuple(name for name, answer in self.answers.items() if now.get(name) != answer)


def shortened(answer: str | None) -> str:
    """A value as an index has it.

    >>> shortened(None), len(shortened("2.0 " + "0" * 64))
    ('', 16)
    """
    return "" if answer is None else hashlib.sha256(answer.encode()).hexdigest()[:16]


def parse_names(value: object) -> tuple[str, ...]:
    """Names of inputs, of known kinds and well formed; raises FormatError.

    >>> parse_names(["file:search/tiles.json", "python"])
    ('file:search/tiles.json', 'python')
    """
    if not isinstance(value, list):
        raise FormatError("expected a list of names")
    if len(value) > MOST:
        raise FormatError(f"{len(value)} names, more than the limit of {MOST}")
    return tuple(_checked(value))


def is_name(name: str) -> bool:
    """Whether a text is the name of an input.

    >>> is_name("file:search/tiles.json"), is_name("file:search/../../x"), is_name("file:/dev/zero"), is_name("clock")
    (True, False, False, False)
    """
    if name in _ALONE:
        return True
    kind, colon, rest = name.partition(":")
    pattern = _NAMES.get(kind)
    if not colon or pattern is None or len(name) > _LONGEST or not pattern.fullmatch(rest) or not _is_text(rest):
        return False
    if pattern is not _PATH:
        return True
    parts = rest.split("/")
    return rest != "" and not {".", ".."} & set(parts) and "" not in parts[1:] and not f"{rest}/".startswith(_NO_FILES)


def _checked(names: Iterable[object]) -> Iterator[str]:
    for name in names:
        if not isinstance(name, str) or not is_name(name):
            raise FormatError(f"{str(name)[:80]!r} is not the name of an input")
        yield name


def _answer(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > _LONGEST or not _is_text(value)):
        raise FormatError("a value must be a short text or null")
    return value


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


NO_INPUTS = Inputs.of({})
