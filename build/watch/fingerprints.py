"""Fingerprints of files and folders: by them a watch sees a change.

A file is read again only when its stamp has changed: one that is written anew with the same content, as generators and
editors do, has not changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from precast.build.inputs.contents import Stamp, stamp_of
from precast.loader.regular_file import read_regular

Fingerprint = tuple[object, ...] | None
"""A file's digest, or its stamp where it is large; a folder's names; None for what does not exist."""
_GENERATED = ("__pycache__",)
_LARGE = 16 << 20


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Reads fingerprints. In a folder, what a build writes (``without``) does not count.

    >>> Fingerprints().now(["/no/such/file"])
    {'/no/such/file': None}
    """

    without: frozenset[str] = frozenset()
    _digests: dict[str, tuple[Stamp, Fingerprint]] = field(default_factory=dict)

    def now(self, paths: Iterable[str]) -> dict[str, Fingerprint]:
        """The fingerprints of paths at this moment."""
        return {path: self._of(path) for path in sorted(set(paths))}

    def _of(self, path: str) -> Fingerprint:
        try:
            with os.scandir(path) as entries:
                names = [e.name for e in entries if not e.name.startswith(".") and e.name not in _GENERATED]
        except NotADirectoryError:
            return self._of_file(path)
        except (OSError, ValueError):
            return None
        return tuple(sorted(name for name in names if os.path.join(path, name) not in self.without))

    def _of_file(self, path: str) -> Fingerprint:
        stamp = stamp_of(path)
        if stamp is None:
            return None
        noted = self._digests.get(path)
        if noted is None or noted[0] != stamp:
            noted = self._digests[path] = (stamp, _digest(path) or stamp)
        return noted[1]


def changed(before: Mapping[str, Fingerprint], later: Mapping[str, Fingerprint]) -> tuple[str, ...]:
    """The paths of both whose fingerprints differ.

    >>> changed({"a": None, "b": None}, {"a": (1,), "c": (2,)})
    ('a',)
    """
    return tuple(path for path, value in before.items() if path in later and later[path] != value)


def modified_since(paths: Iterable[str], nanoseconds: int) -> tuple[str, ...]:
    """The files that were modified at this time or later.

    >>> modified_since(["/no/such/file"], 0)
    ()
    """
    stamps = {path: stamp_of(path) for path in sorted(paths) if not os.path.isdir(path)}
    return tuple(path for path, stamp in stamps.items() if stamp is not None and stamp[0] >= nanoseconds)


def _digest(path: str) -> Fingerprint:
    try:
        return (hashlib.sha256(read_regular(os.path.realpath(path), _LARGE)).hexdigest(),)
    except OSError:  # large, or not readable
        return None
