"""Guards: the identity of an installed library, as a part of each key. A kernel serves the library it was built for.

The source digest covers the Python files that pip installed for the library. It is computed from pip's list of them
(``RECORD``), which has the digest of each, and so takes milliseconds. A file that was changed since is read: one
whose size is not the listed one, or that was written or moved there after the list: a copy that keeps the old time
is noticed by the time of its change, which no program can set. All files are read of a library that is imported from
elsewhere than where pip installed it: an editable install, or a folder that comes first on ``sys.path``.

The digest is computed once per process, at the first key. A later change of a file that a kernel uses is noticed by
the kernel's own facts, and so is one of which neither its size nor the times tell.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from precast.loader.contract.values import Immutable
from precast.loader.errors import PrecastError
from precast.loader.fast_start.installed import Installed, locate


class NotInstalled(PrecastError):
    """The library is not installed here, or its files cannot be read."""

    code = "PCA01"


class Guard(Immutable, kw_only=True):
    """The identity of an installed library."""

    version: str
    source: str


BY_MODULE = "of each kernel's modules"
"""The digest of a library whose kernels each depend on few of its files: their own facts have the digests of these."""


def version_of(distribution: str) -> str:
    """The version of a distribution that is installed here.

    >>> version_of("zstandard") != ""
    True
    """
    return _installed(distribution)[0]


def _installed(distribution: str) -> tuple[str, str]:
    normalised = re.sub(r"[-_.]+", "-", distribution).lower()
    distributions = Installed().distributions()
    installed = next(((version, info) for name, version, info in distributions if name == normalised), None)
    if installed is None:
        raise NotInstalled(f"{distribution} is not installed: pip install {distribution}")
    return installed


def guard_of(distribution: str, package: str) -> Guard:
    """The version of a distribution, and the digest of the Python files of its package.

    >>> guard_of("zstandard", "zstandard").version != ""
    True
    """
    version, info_folder = _installed(distribution)
    info, package_folder = Path(info_folder), folder_of(package)
    if package_folder is None:
        raise NotInstalled(f"{distribution} is not installed: pip install {distribution}")
    folder = package.replace(".", "/")
    digests = dict(_listed(info / "RECORD", folder))
    if not digests or not _same_folder(package_folder, info.parent / folder):
        digests = {
            f"{folder}/{file.relative_to(package_folder).as_posix()}": _digest(file)
            for file in package_folder.rglob("*.py")
        }
    text = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
    return Guard(version=version, source=hashlib.sha256(text.encode()).hexdigest())


def folder_of(package: str) -> Path | None:
    """The folder of a package, which is not imported. A package may be inside another that is installed elsewhere.

    >>> folder_of("json").name, folder_of("no_such_package")
    ('json', None)
    """
    folder, inside = locate(package), package.replace(".", "/")
    if folder is not None or "/" not in inside:
        return folder
    return next((Path(entry, inside) for entry in sys.path if os.path.isfile(f"{entry}/{inside}/__init__.py")), None)


def edited_files(distribution: str, package: str) -> tuple[str, ...]:
    """The Python files of a package whose content is not the one that pip installed, by their paths.

    >>> edited_files("zstandard", "zstandard")
    ()
    """
    record = Path(_installed(distribution)[1]) / "RECORD"
    folder = package.replace(".", "/")
    return tuple(name for name, now, listed in _as_listed(record, folder) if now != listed)


def _listed(record: Path, folder: str) -> Iterator[tuple[str, str]]:
    """The Python files of a folder that pip installed, and the digest of each as it is now."""
    yield from ((name, now) for name, now, _ in _as_listed(record, folder))


def _as_listed(record: Path, folder: str) -> Iterator[tuple[str, str, str]]:
    """The Python files of a folder that pip installed: the digest of each as it is now, and as pip listed it."""
    try:
        lines, written = record.read_text().splitlines(), record.stat().st_mtime_ns
    except OSError:
        return
    for line in lines:
        if not line.startswith(f"{folder}/"):
            continue
        name, _, rest = line.rpartition(",sha256=")
        encoded, _, size = rest.partition(",")
        if name.endswith(".py") and size.isdigit():
            file = record.parent.parent / name
            listed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
            yield name, listed if _is_as_installed(file, int(size), written) else _digest(file), listed


def _is_as_installed(file: Path, size: int, written: int) -> bool:
    try:
        now = file.stat()
    except OSError:
        return False
    return now.st_size == size and max(now.st_mtime_ns, now.st_ctime_ns) <= written


def _same_folder(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _digest(file: Path) -> str:
    """The digest of a file's bytes; no text where it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
