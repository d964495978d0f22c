"""Kernel facts: what decided the kernel of an attached library beside its key.

A worker of the build observes them while the library's function compiles, and the index keeps them with the artifact.
The kernel is served only where they hold: environment variables that the library's code has read, the packages of
other distributions whose device code it uses, and modules of no distribution, such as that of a user's function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

MOST = 1000
_LONGEST = 4096
_FIELDS = ("variables", "packages", "modules")


class Package(Immutable, kw_only=True):
    """A package of another distribution: its version, and the digest of its sources."""

    distribution: str
    version: str
    source: str

    def to_json(self) -> dict[str, str]:
        """The package as JSON."""
        return {"distribution": self.distribution, "version": self.version, "source": self.source}

    @classmethod
    def parse(cls, value: object) -> Package:
        """Read what ``to_json`` gave, each part checked."""
        data = fields.known(fields.as_object(value), ("distribution", "version", "source"))
        return cls(**{name: fields.parsed(data, name, _text) for name in ("distribution", "version", "source")})


class KernelFacts(Immutable, kw_only=True):
    """The facts of one kernel: variables with their values (None: not set), packages by name, and modules with the
    digests of their files.

    >>> facts = KernelFacts.parse({"variables": {"ACME_TILE": "64"}, "packages": {}, "modules": {}})
    >>> list(facts.changed_variables({"ACME_TILE": "64"})), list(facts.changed_variables({}))
    ([], ['ACME_TILE'])
    """

    variables: Mapping[str, str | None]
    packages: Mapping[str, Package]
    modules: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON, sorted."""
        return {
            "variables": dict(sorted(self.variables.items())),
            "packages": {name: package.to_json() for name, package in sorted(self.packages.items())},
            "modules": dict(sorted(self.modules.items())),
        }

    @classmethod
    def parse(cls, value: object) -> KernelFacts:
        """Read what ``to_json`` gave; raises FormatError."""
        data = fields.known(fields.as_object(value), _FIELDS)
        return cls(
            variables=fields.table(data, "variables", _value, most=MOST),
            packages=fields.table(data, "packages", Package.parse, most=MOST),
            modules=fields.table(data, "modules", _text, most=MOST),
        )

    def changed_variables(self, environment: Mapping[str, str]) -> Iterator[str]:
        """The variables that have another value in an environment."""
        return (name for name, value in self.variables.items() if environment.get(name) != value)


def parse_facts(value: object) -> KernelFacts | None:
    """The facts of a kernel; None where a build observed none, as for a kernel of one's own.

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
