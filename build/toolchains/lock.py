"""Locks: every distribution of a toolchain, with its version and the digests that its files must have.

The file is a requirements file of pip, as ``uv pip compile --generate-hashes`` writes it. URLs, other files and options
are refused: a lock only lists distributions.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from precast.build.errors import ToolchainError
from precast.loader.contract.format.config import canonical

LIMIT = 16 << 20
_MOST = 5000
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,199})==([A-Za-z0-9.!+_-]{1,100})(?:\s*;\s*(.{1,2000}))?")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Locked:
    """One distribution: its name and version, its marker, and the digests of its files."""

    name: str
    version: str
    marker: str
    digests: tuple[str, ...]

    def __str__(self) -> str:
        marker = f" ; {self.marker}" if self.marker else ""
        return " \\\n    ".join(
            [f"{self.name}=={self.version}{marker}", *(f"--hash={digest}" for digest in self.digests)]
        )


@dataclass(frozen=True, slots=True)
class Lock:
    """The distributions, sorted by name.

    >>> text = f"Acme_norms==1.2 \\\\\\n    --hash=sha256:{'0' * 64}  # via -r mine.in\\n"
    >>> Lock.parse(text, "a.lock").versions
    {'acme-norms': '1.2'}
    """

    distributions: tuple[Locked, ...]

    @classmethod
    def parse(cls, text: str, file: str) -> Lock:
        """Read a lock; raises ToolchainError with the line of an error."""
        distributions: dict[tuple[str, str], Locked] = {}
        for number, line in _lines(text):
            distribution = _locked(line, f"{file}:{number}")
            if (distribution.name, distribution.marker) in distributions:
                raise ToolchainError(f"{file}:{number}: {distribution.name} is listed twice: write the lock again")
            distributions[distribution.name, distribution.marker] = distribution
        if not distributions:
            raise ToolchainError(f"{file}: the lock is empty: write it with 'precast toolchains --lock'")
        if len(distributions) > _MOST:
            raise ToolchainError(f"{file}: {len(distributions)} distributions, more than {_MOST}: split the toolchain")
        return cls(tuple(sorted(distributions.values())))

    @property
    def versions(self) -> dict[str, str]:
        """The version of each distribution; of several for different machines, the last."""
        return {distribution.name: distribution.version for distribution in self.distributions}

    def digest(self, python: str) -> str:
        """The identity of its environment for a version of Python, on this machine's architecture."""
        rows = [
            [distribution.name, distribution.version, distribution.marker, list(distribution.digests)]
            for distribution in self.distributions
        ]
        return hashlib.sha256(canonical([python, platform.machine(), rows])).hexdigest()

    def __str__(self) -> str:
        return "".join(f"{distribution}\n" for distribution in self.distributions)


def _lines(text: str) -> Iterable[tuple[int, str]]:
    """The lines with their numbers: without comments, and with continuation lines joined."""
    whole, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*$", "", line).strip()
        begun = begun or number
        whole += " " + bare.removesuffix("\\").strip()
        if not bare.endswith("\\"):
            if whole.strip():
                yield begun, whole.strip()
            whole, begun = "", 0
    if whole.strip():
        yield begun, whole.strip()


def _locked(line: str, location: str) -> Locked:
    pin, *hashes = re.split(r"\s+--hash=", line)
    match = _PIN.fullmatch(pin.strip())
    if match is None:
        raise ToolchainError(
            f"{location}: {pin.strip()[:80]!r} is not NAME==VERSION: write the lock with 'precast toolchains --lock', "
            "and name folders of wheels with --find-links"
        )
    name, version, marker = canonicalize_name(match[1]), match[2], (match[3] or "").strip()
    digests = tuple(sorted(digest.strip() for digest in hashes))
    if not digests or not all(_HASH.fullmatch(digest) for digest in digests):
        raise ToolchainError(
            f"{location}: {name} has no SHA-256 digests: write the lock with 'precast toolchains --lock', "
            "or with 'uv pip compile --generate-hashes'"
        )
    try:
        return Locked(name, version, str(Marker(marker)) if marker else "", digests)
    except InvalidMarker:
        raise ToolchainError(f"{location}: {marker[:80]!r} is not a marker: write the lock again") from None
