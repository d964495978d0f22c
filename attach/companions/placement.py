"""Placement: the files of companions, verified and put into folders of this user, from which their owners read.

The folder of a companion is named by the digest of the companion index, so that files of two versions never mix and a
second start finds everything there: it compares sizes only. Its path has the length that it had where the start was
recorded: pickled graphs hold it, with its length before it. Files are written into a folder aside, which is renamed
when it is complete; a process that is killed leaves that folder, and the next one removes it. One process writes at a
time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from precast.attach.companions.companion import COMPANIONS, Companion
from precast.attach.companions.machine_facts import difference
from precast.loader.contract.format.companion_index import FOLDER, CompanionFile, CompanionState
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, IntegrityError, PrecastError
from precast.loader.resolve.cache import Cache

FOLDER_LENGTH = 200
"""The bytes of a companion's path, wherever it lies."""
_ASIDE = ".precast-"
_THREADS = 2  # more of them wait for the interpreter's lock: with many small files, eight take twice as long
_LOCK_SECONDS = 120.0
_LONGEST_ROOT = FOLDER_LENGTH - len("/") - max(map(len, COMPANIONS)) - len("-") - 32
_QUOTED = set("\"'\\\n\r")


class Placed(Immutable, kw_only=True):
    """A companion whose files are in its folder; ``written`` counts those that were not there before."""

    companion: Companion
    folder: Path
    files: int
    size: int
    written: int

    def __str__(self) -> str:
        return f"{self.companion.title}: {self.files} files, {self.size} bytes, {self.written} of them written now"


class LeftOut(Immutable):
    """A companion whose files are not used, and why."""

    title: str
    reason: str

    def __str__(self) -> str:
        return f"{self.title}: its files are not used: {self.reason}"


class Placement(Immutable):
    """What became of the companions of a cache."""

    placed: tuple[Placed, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that make the owners look there."""
        return {placed.companion.variable: str(placed.folder) for placed in self.placed}

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.placed, *self.left_out)))


def place_files(
    cache: Cache, root: Path, facts: Callable[[Companion], Mapping[str, str]], environment: Mapping[str, str]
) -> Placement:
    """Put the companions of a cache into folders below ``root``, as far as they fit.

    Parameters
    ----------
    cache
        The cache, whose files are not trusted.
    root
        A folder of this user, made if there is none.
    facts
        Returns the facts of this machine that a companion's files depend on.
    environment
        The variables of the process: where one names another folder for a companion, that is left as it is.
    """
    try:
        index = cache.companions()
        if index is not None and index.companions:
            _make_private(root)
    except PrecastError as error:
        return Placement((), (LeftOut(f"cache {cache.name}", f"{error} ({error.code})"),))
    version = cache.index.companions.sha256[:32] if cache.index.companions else ""
    placed: list[Placed] = []
    left_out: list[LeftOut] = []
    for state in index.companions if index else ():
        companion = COMPANIONS.get(state.name)
        if companion is None:
            left_out.append(LeftOut(state.name, "this version of precast-attach does not have it: upgrade it"))
            continue
        folder = folder_of_companion(root, f"{state.name}-{version}")
        elsewhere = environment.get(companion.variable, str(folder))
        reason = companion.refusal or difference(companion, state.facts, facts(companion))
        if not reason and elsewhere != str(folder):
            mine = os.path.dirname(elsewhere) == str(root)
            reason = "another cache has some, too" if mine else f"{companion.variable}={elsewhere} is set: unset it"
        if not reason:
            try:
                placed.append(_place(cache, state, companion, folder))
                continue
            except PrecastError as error:
                reason = f"{error} ({error.code})"
            except OSError as error:
                reason = f"{error.filename or folder}: {error.strerror or error}"
        left_out.append(LeftOut(companion.title, reason))
    return Placement(tuple(placed), tuple(left_out))


def _make_private(root: Path) -> None:
    """Make the folder, and refuse one in which another user could exchange files: their code runs as this user."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = os.stat(root, follow_symlinks=False)
    except OSError as error:
        raise ConfigError(
            f"{root} cannot be made a folder ({error.strerror}): set PRECAST_COMPANIONS to a folder of this user"
        ) from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{root} is a link, or others may write it: set PRECAST_COMPANIONS to a folder that only this user writes"
        )
    if _QUOTED.intersection(str(root)) or not str(root).isprintable() or not str(root).isascii():
        raise ConfigError(f"{str(root)!r} has quotes or other than ASCII characters: set PRECAST_COMPANIONS")
    if len(str(root)) > _LONGEST_ROOT:
        raise ConfigError(
            f"{root} is longer than {_LONGEST_ROOT} characters: set PRECAST_COMPANIONS to a folder with a shorter path"
        )


def folder_of_companion(root: Path, name: str) -> Path:
    """The folder below ``root`` that begins with ``name`` and has a path of the fixed length; ConfigError if none has.

    >>> folder = folder_of_companion(Path("/cache"), "triton")
    >>> folder.name.rstrip("-"), len(str(folder)) == FOLDER_LENGTH
    ('triton', True)
    """
    length = FOLDER_LENGTH - len(os.fsencode(root)) - len("/")
    if len(name) > length:
        raise ConfigError(f"{root} has a path too long for {name}: use a shorter one (PRECAST_COMPANIONS, or TMPDIR)")
    return root / name.ljust(length, "-")


def _place(cache: Cache, state: CompanionState, companion: Companion, folder: Path) -> Placed:
    written = 0
    if _missing(state, folder):
        with _locked(folder.parent):
            missing = _missing(state, folder)  # another process may have been faster
            if missing:
                _write(cache, missing, folder)
                written = len(missing)
    size = sum(file.size(os.fsencode(folder)) for file in state.files)
    return Placed(companion=companion, folder=folder, files=len(state.files), size=size, written=written)


def _missing(state: CompanionState, folder: Path) -> list[CompanionFile]:
    """The files that are not in the folder with their size."""
    prefix = os.fsencode(folder)
    if not folder.is_dir():
        return list(state.files)
    return [file for file in state.files if not _is_whole(f"{folder}/{file.path}", file.size(prefix))]


def _is_whole(path: str, size: int) -> bool:
    try:
        facts = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size == size


def _write(cache: Cache, files: Sequence[CompanionFile], folder: Path) -> None:
    """Write files of a companion aside, then move them into its folder: whole if it is new, else one by one."""
    for abandoned in folder.parent.glob(f"{_ASIDE}*"):  # of a process that was killed: only one writes at a time
        shutil.rmtree(abandoned, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=folder.parent))
    try:
        threads = min(_THREADS, len(files))
        parts = [files[number::threads] for number in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda part: _write_part(cache, part, aside, os.fsencode(folder)), parts):
                pass
        if not os.path.lexists(folder):
            os.rename(aside, folder)
            return
        for file in files:
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(aside / file.path, folder / file.path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_part(cache: Cache, files: Sequence[CompanionFile], aside: Path, folder: bytes) -> None:
    with cache.many_blobs():
        for file in files:
            data = b"".join(map(cache.read, file.blobs))
            if file.relocations:
                data = data.replace(FOLDER, folder)
            if len(data) != file.size(folder):
                raise IntegrityError(f"{file.path} has another number of relocations than listed: rebuild the cache")
            path = f"{aside}/{file.path}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as placed:
                placed.write(data)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lock of a folder, which the system releases when the process ends in any way."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigError(f"another process has held the lock of {root} for two minutes: end it") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)
