"""The installation: the distribution that owns a file, and the digest of a distribution, including edited files."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.inputs.contents import Stamp, hash_file, is_young, stamp_of
from precast.build.inputs.file_lists import (
    COUNTED,
    Distribution,
    counts,
    distributions_in,
    files_of,
    header_of,
    normalised,
    tops_of,
)
from precast.loader.contract.format.config import canonical

_REQUIRED = re.compile(r"^Requires-Dist: *([A-Za-z0-9._-]+)(?: *\[([^\]]*)\])?([^\n]*)$", re.MULTILINE)
_EXTRA = re.compile(r"extra *== *['\"]([^'\"]+)['\"]")
_NO_TOPS = ("..", "", "__pycache__", "bin", "share")


class Installation:
    """The distributions on Python's path that have a list of their files (``RECORD``).

    A file that no list has belongs to no distribution: that of an editable install, or one added by hand.

    >>> import sys, yaml
    >>> Installation(sys.path).owner(yaml.__file__)
    'pyyaml'
    """

    def __init__(self, path: Sequence[str], memo: Memo | None = None) -> None:
        self._path = tuple(dict.fromkeys(os.path.abspath(folder) for folder in path if folder))
        self._memo = memo
        self._infos: dict[str, Distribution] | None = None
        self._tops: dict[str, dict[str, list[Distribution]]] = {}
        self._records: dict[Distribution, dict[str, str]] = {}
        self._owners: dict[str, str | None] = {}
        self._prefixes = tuple((folder, os.path.join(folder, "")) for folder in self._path)
        self._states: dict[str, str] = {}
        # Python ignores a distribution that another one of the same name hides.
        self._visible: set[Distribution] = set()

    def owner(self, file: str) -> str | None:
        """The distribution whose list has this file, or None."""
        if file not in self._owners:
            self._owners[file] = self._owner(file)
        return self._owners[file]

    def names(self) -> tuple[str, ...]:
        """The names of all distributions."""
        return tuple(self._installed())

    def version(self, name: str) -> str:
        """The version of a distribution; empty if it is not installed."""
        info = self._installed().get(name)
        return info.version if info is not None else ""

    def with_required(self, names: Iterable[str]) -> tuple[str, ...]:
        """The installed ones of some distributions, all that they require, and those that share a folder with one.

        What a requirement's extras require is included; extras that nothing requires are not.

        >>> import sys
        >>> "markupsafe" in Installation(sys.path).with_required(["jinja2"])
        True
        """
        done: set[tuple[str, str]] = set()
        waiting = [(name, "") for name in names]
        while waiting:
            name, extra = waiting.pop()
            info = self._installed().get(name)
            if info is None or (name, extra) in done:
                continue
            done.add((name, extra))
            waiting += [(neighbour, "") for neighbour in self._neighbours(info)]
            for match in _REQUIRED.finditer(header_of(os.path.join(*info, "METADATA"))):
                condition = _EXTRA.search(match[3])
                if (condition[1] if condition else "") == extra:
                    other = normalised(match[1])
                    waiting += [(other, ""), *((other, word.strip()) for word in (match[2] or "").split(",") if word)]
        return tuple(sorted({name for name, _ in done}))

    def paths(self, name: str) -> tuple[str, ...]:
        """The files and folders of a distribution in the folder that it is installed into. Its metadata are those files
        only that count: installers differ in the list of its files, for example."""
        info = self._installed().get(name)
        if info is None:
            return ()
        files = [os.path.join(info.name, file) for file in COUNTED]
        return tuple(os.path.join(info.folder, part) for part in (*self._own_tops(info), *files))

    def _own_tops(self, info: Distribution) -> list[str]:
        tops = self._tops[info.folder].items()
        return sorted(top for top, infos in tops if info in infos and top not in _NO_TOPS and top != info.name)

    def metadata_file(self, name: str) -> str:
        """The list of a distribution's files, which an installer writes last."""
        return os.path.join(*self._installed()[name], "RECORD")

    def _neighbours(self, info: Distribution) -> set[str]:
        """The distributions that have a folder in common with one, such as ``nvidia``."""
        tops = self._tops[info.folder].items()
        shared = [infos for top, infos in tops if len(infos) > 1 and info in infos and top not in _NO_TOPS]
        return {other.distribution for infos in shared for other in infos if other in self._visible}

    def answer(self, name: str) -> str | None:
        """The version of a distribution and the digest of its files: from its list, and from the content of files that
        differ from the list. None if it is not installed."""
        info = self._installed().get(name)
        if info is None:
            return None
        begun = time.time_ns()
        listed, counted, stamps = self._files(info)
        self._states[name] = _state(counted, stamps)
        key = memo_key(
            "distribution",
            info.folder,
            info.name,
            _digest_of_lines(map(",".join, listed.items())),
            _digest_of_lines(stamps),
        )
        noted = self._memo.get("distributions", key) if self._memo else None
        if isinstance(noted, str) and re.fullmatch(r"\S+ [0-9a-f]{64}", noted):
            return noted
        record = stamp_of(os.path.join(*info, "RECORD"))
        unsure = _unsure(record, counted, stamps, listed)
        answer = f"{info.version} {_content(info.folder, {file: listed[file] for file in counted}, unsure)}"
        if self._memo and not _are_young(stamps, begun):
            self._memo.put("distributions", key, answer)
        return answer

    def is_edited(self, name: str, now: Installation) -> bool:
        """Whether a file of a distribution was written, added or removed since its ``answer``; False without one.

        The time of the last change of its facts does not count: who makes an environment of hard links sets it.
        """
        if name not in self._states:
            return False
        info = now._installed().get(name)
        return info is None or _state(*now._files(info)[1:]) != self._states[name]

    def _files(self, info: Distribution) -> tuple[dict[str, str], list[str], list[str]]:
        """The list of a distribution's files with those that it lacks, the files that count, and their stamps."""
        listed = self._record(info)
        counted = [file for file in listed if counts(file)]
        counted += [file for file in self._unlisted(info) if file not in listed]
        return {**dict.fromkeys(counted, ""), **listed}, counted, _stamps(info.folder, counted)

    def _unlisted(self, info: Distribution) -> list[str]:
        """The files in the folders of a distribution that no list has: somebody put them there."""
        unlisted = []
        for top in self._own_tops(info):
            records = [self._record(other) for other in self._tops[info.folder].get(top, ())]
            for folder, folders, files in os.walk(os.path.join(info.folder, top)):
                folders[:] = [name for name in folders if name != "__pycache__"]
                inside = _inside(info.folder, folder)
                paths = (f"{inside}/{name}" for name in files)
                unlisted += [path for path in paths if not any(path in record for record in records)]
        return sorted(unlisted)

    def _owner(self, file: str) -> str | None:
        info = self._lister(file)
        return info.distribution if info else None

    def _lister(self, file: str) -> Distribution | None:
        """The installed distribution that lists a file."""
        self._installed()
        for folder, prefix in self._prefixes:
            if not file.startswith(prefix):
                continue
            inside = _inside(folder, file)
            for info in self._tops.get(folder, {}).get(inside.partition("/")[0], ()):
                if info in self._visible and inside in self._record(info):
                    return info
        return None

    def _record(self, info: Distribution) -> dict[str, str]:
        if info not in self._records:
            self._records[info] = dict(files_of(os.path.join(info.folder, info.name, "RECORD")))
        return self._records[info]

    def _installed(self) -> Mapping[str, Distribution]:
        """The distributions by name, and for each folder those that have files under a top name."""
        if self._infos is None:
            self._infos = {}
            infos = [info for folder in self._path for info in distributions_in(folder)]
            key = memo_key("owners", [[*info, stamp_of(os.path.join(*info, "RECORD"))] for info in infos])
            noted = _parse_tops(self._memo.get("owners", key), len(infos)) if self._memo else None
            tops = noted or [sorted(tops_of(os.path.join(*info, "RECORD"))) for info in infos]
            if self._memo and noted is None:
                self._memo.put("owners", key, tops)
            for info, names in zip(infos, tops, strict=True):
                if self._infos.setdefault(info.distribution, info) == info:
                    self._visible.add(info)
                for name in names:
                    self._tops.setdefault(info.folder, {}).setdefault(name, []).append(info)
        return self._infos


def _inside(folder: str, file: str) -> str:
    return file[len(folder) :].lstrip("/")


def _stamps(folder: str, files: Iterable[str]) -> list[str]:
    """The stamps of files as texts: there are tens of thousands, and every build reads them."""
    stamps = []
    for file in files:
        try:
            facts = os.stat(f"{folder}/{file}")
        except OSError:
            stamps.append("")
        else:
            stamps.append(f"{facts.st_mtime_ns} {facts.st_size} {facts.st_ino} {facts.st_ctime_ns}")
    return stamps


def _state(files: Iterable[str], stamps: Iterable[str]) -> str:
    pairs = zip(files, stamps, strict=True)
    return _digest_of_lines(f"{file} {stamp.rpartition(' ')[0]}" for file, stamp in pairs)


def _are_young(stamps: Iterable[str], then: int) -> bool:
    """Whether a file had changed so lately that its stamp proves nothing, when the stamps were taken."""
    return any(
        is_young((int(modified), 0, 0, int(changed)), then)
        for modified, _, _, changed in map(str.split, filter(None, stamps))
    )


def _unsure(record: Stamp | None, files: Sequence[str], stamps: Sequence[str], listed: Mapping[str, str]) -> list[str]:
    """Python files, those without a digest in the list, and those that were changed after the list was written.

    An installer writes the list last. Only these files are hashed: a distribution may have gigabytes. No program can
    set the time of a change, but a copy of an environment makes all times anew: then an edited library is not seen.
    """
    then = 0 if record is None else record[3]
    return [
        file
        for file, stamp in zip(files, stamps, strict=True)
        if file.endswith(".py") or not listed[file] or not stamp or int(stamp.rpartition(" ")[2]) > then
    ]


def _content(folder: str, listed: Mapping[str, str], unsure: Sequence[str]) -> str:
    """The digest of a list of files, and of the content of those unsure files that differ from it."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = list(pool.map(lambda file: hash_file(f"{folder}/{file}"), unsure))
    edited = {file: digest for file, digest in zip(unsure, digests, strict=True) if _spelled(digest) != listed[file]}
    return _digest([dict(listed), edited])


def _spelled(digest: str | None) -> str:
    if digest is None:
        return ""
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def _digest_of_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _parse_tops(value: Any, count: int) -> list[list[str]] | None:
    right = isinstance(value, list) and len(value) == count
    if not right or not all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in value):
        return None
    return value  # type: ignore[no-any-return]
