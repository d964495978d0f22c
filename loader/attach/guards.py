"""Guards: what a key stands for beside its arguments. A kernel serves the library it was built from, and no other.

The source digest covers every Python file of the library. It is read off the list of files that pip installed
(``RECORD``), which has the digest of each, so that it costs milliseconds; the modules that are in use are read and held
against that list, so that a file edited in place is noticed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from precast.loader.errors import PrecastError
from precast.loader.fast_start.installed import Installed, locate
from precast.loader.fast_start.values import Immutable

DSL_DISTRIBUTION = "nvidia-cutlass-dsl"


class NotInstalled(PrecastError):
    """The library is not installed here, or its files cannot be read."""


class Guard(Immutable, kw_only=True):
    """The identity of an installed library."""

    version: str
    source: str


def guard_of(distribution: str, package: str) -> Guard:
    """The version of a distribution, and the digest of the Python files of its package.

    >>> guard_of("zstandard", "zstandard").version != ""
    True
    """
    found = next(
        ((version, folder) for name, version, folder in Installed().distributions() if name == distribution), None
    )
    place = locate(package)
    if found is None or place is None:
        raise NotInstalled(f"{distribution} is not installed: pip install {distribution}")
    version, info = found
    listed = dict(_recorded(Path(info), package))
    digests = listed if listed and not _edited(listed, place, package) else dict(_read(place, package))
    text = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
    return Guard(version=version, source=hashlib.sha256(text.encode()).hexdigest())


def _recorded(info: Path, package: str) -> Iterator[tuple[str, str]]:
    """The Python files of a package and their digests, as pip recorded them."""
    try:
        lines = (info / "RECORD").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, rest = line.partition(",")
        if name.startswith(f"{package}/") and name.endswith(".py") and rest.startswith("sha256="):
            encoded = rest[7:].partition(",")[0]
            yield name, base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()


def _edited(listed: dict[str, str], place: Path, package: str) -> bool:
    """Whether a module of the package that is in use is not the file that was installed."""
    root = place.parent
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or not file.endswith(".py"):
                continue
            relative = os.path.relpath(file, root)
            if listed.get(relative) != _digest(Path(file)):
                return True
    return False


def _read(place: Path, package: str) -> Iterator[tuple[str, str]]:
    """The same facts read from the files themselves: of an editable install, or of one that was edited."""
    for file in sorted(place.rglob("*.py")):
        yield f"{package}/{file.relative_to(place).as_posix()}", _digest(file)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
