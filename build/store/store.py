"""The store: records of built variants by their keys, shared by all builds of a user, valid after any interruption.

It grows with every variant that is built, until it is pruned (``precast store --prune``): see ``prune.py``. With a
remote cache, a file that this machine lacks is fetched from there, and a file that is written is sent there.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import zstandard

from precast.build.disk.last_use import mark_used
from precast.build.disk.memo import Memo
from precast.build.disk.scratch import WRITING, sweep, write_atomically
from precast.build.errors import StoreError
from precast.build.store.key import artifact_key
from precast.build.store.record import Record
from precast.build.store.remote import LIMIT, Remote
from precast.build.store.requested_facts import RequestedFacts, decode_requested_facts, encode_requested_facts
from precast.loader.errors import FormatError
from precast.loader.regular_file import read_regular

_LEVEL = 3
_RECORD_LIMIT = 1 << 30
_UNWRITABLE = {
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "is read-only"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "is full ('precast store --prune' makes room)"),
}
_MOST_SETS = 16  # a variant that requests facts in more ways is built again now and then


def default_store() -> Path:
    """The folder of records unless a build names another: ``PRECAST_STORE``, or a folder in the user's cache."""
    named = os.environ.get("PRECAST_STORE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "store"


class Store:
    """A folder of records. One that cannot be read completely counts as absent, with a warning, and is built again.

    A variant has a file with the names of what it requested: facts of its GPU, and inputs, such as files. And it has a
    record for every set of values that it was built with: it is built again when one of those values changes, and for
    no other reason. What it requests may depend on an earlier value, so that it requests other facts of one GPU than of
    another: the file then has the names of each. ``Lookup`` finds the record for the values of this moment. The time at
    which a file was last modified is that of its last use.
    """

    def __init__(
        self, path: Path, warn: Callable[[str], None] = lambda text: None, remote: Remote | None = None
    ) -> None:
        self.path = path
        self.notes = Memo(path / "notes")
        self._warn = warn
        self.remote = remote
        self._refused: set[Path] = set()
        self._unwritable: set[str] = set()
        self._not_in_remote: set[str] = set()
        self._in_remote: set[str] = set()
        self._record_keys: dict[tuple[str, str], dict[str, str]] = {}  # by op and kind, then by the key of an artifact

    def sweep(self) -> None:
        """Remove the temporary files of builds that were killed."""
        if self.path.is_dir():
            for folder in [*self.path.glob("??"), *self.notes.path.glob("*")]:
                sweep(folder, WRITING)

    def put(self, key: str, record: Record) -> None:
        """Keep the record of a variant's key. Other builds see all of it or nothing, and may write the same one."""
        self.write(record.key, "record", compressed(record))
        new, before = RequestedFacts.of(record), self.requested(key)
        if new not in before:
            others = [facts for facts in before if facts != RequestedFacts() and not facts.same_names(new)]
            self.write(key, "asked", encode_requested_facts([new, *others][:_MOST_SETS]))

    def requested(self, key: str, *, fetch: bool = True) -> tuple[RequestedFacts, ...]:
        """What the variant requested when it was built, each set of names once.

        Nothing, where no file has it; no set at all, where the file is damaged. Without ``fetch``, the remote cache is
        not queried.
        """
        data = self._load(key, "asked", fetch=fetch)
        try:
            return (RequestedFacts(),) if data is None else decode_requested_facts(data)
        except FormatError as error:
            self.refuse(self._path(key, "asked"), error)
            return ()

    def read(self, key: str) -> Record | None:
        """The record with exactly this key, or None."""
        data = self._load(key, "record")
        try:
            return None if data is None else decode_record(data, key)
        except FormatError as error:
            self.refuse(self.record_file(key), error)
            return None

    def record_of(self, artifact: str, op: str, kind: str) -> Record | None:
        """The record that an artifact was made from, by the artifact's key, if it is here."""
        key = self.record_key_of(artifact, op, kind)
        return None if key is None else self.read(key)

    def record_key_of(self, artifact: str, op: str, kind: str) -> str | None:
        """The key of that record. The records are listed once for each op and kind."""
        if (op, kind) not in self._record_keys:
            stems = [path.stem for path in self.path.glob("??/*.record")]
            self._record_keys[op, kind] = {artifact_key(stem, op, kind): stem for stem in stems}
        return self._record_keys[op, kind].get(artifact)

    def record_file(self, key: str) -> Path:
        """Where the record with this key is, or would be."""
        return self._path(key, "record")

    def mark_used(self, key: str) -> None:
        """Record the use of the record with this key."""
        mark_used(self.record_file(key))

    def refuse(self, path: Path, reason: object) -> None:
        """Warn once that a file of the store is not used."""
        if path not in self._refused:
            self._refused.add(path)
            self._warn(f"{path} is not used: {reason}; the variant is built again and the file replaced")

    def write(self, key: str, kind: str, data: bytes) -> None:
        """Write a file, here and to the remote cache."""
        self._keep(self._path(key, kind), data)
        self._send(_name(key, kind), data)

    def _keep(self, path: Path, data: bytes) -> None:
        """Write a file here. A store that is full, or that this user may only read, is left as it is, with a warning:
        what was compiled is in the cache nevertheless."""
        try:
            write_atomically(path, data)
        except StoreError as error:
            why = _UNWRITABLE.get(getattr(error.__cause__, "errno", None) or 0)
            if why is None:
                raise
            if why not in self._unwritable:
                self._unwritable.add(why)
                self._warn(f"the store {self.path} {why}: what this build compiles is not kept for the next one")

    def send_missing(self, files: Iterable[tuple[str, str]]) -> None:
        """Send those of these files, given by key and kind, that the remote cache lacks. It is listed once.

        Only intact files are sent: other machines would refuse a damaged one.
        """
        if self.remote is None or self.remote.read_only:
            return
        unsure = {_name(*file): file for file in files if self._path(*file).is_file()}
        unsure = {name: file for name, file in unsure.items() if name not in self._in_remote}
        listed = self.remote.names() if unsure else None
        if listed is None:
            return
        for name in sorted(unsure.keys() - listed):
            key, kind = unsure[name]
            with contextlib.suppress(FormatError, OSError):
                data = read_regular(self._path(key, kind), LIMIT)
                _check(key, kind, data)
                self._send(name, data)

    def finish(self) -> None:
        """Wait until all files that were sent have arrived at the remote cache."""
        if self.remote is not None:
            self.remote.finish()

    def _load(self, key: str, kind: str, *, fetch: bool = True) -> bytes | None:
        path = self._path(key, kind)
        try:
            data = read_regular(path, LIMIT)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self.refuse(path, error.strerror)
            return self._fetch(key, kind) if fetch else None
        mark_used(path)
        return data

    def _fetch(self, key: str, kind: str) -> bytes | None:
        """A file of the remote cache, which is checked and then kept here; None where there is none."""
        name = _name(key, kind)
        if self.remote is None or name in self._not_in_remote:
            return None
        try:
            data = self.remote.fetch(name)
            if data is not None:
                _check(key, kind, data)
                self._keep(self._path(key, kind), data)
                self._in_remote.add(name)
                return data
        except FormatError as error:
            self._warn(f"{self.remote}/{name} is refused: {error}; the variant is built here and the file replaced")
        self._not_in_remote.add(name)
        return None

    def _send(self, name: str, data: bytes) -> None:
        if self.remote is not None:
            self._in_remote.add(name)
            self.remote.send(name, data)

    def _path(self, key: str, kind: str) -> Path:
        return self.path / _name(key, kind)


def compressed(record: Record) -> bytes:
    """A record as its file holds it."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(record.encode())


def decode_record(data: bytes, key: str) -> Record:
    """Read the file of a record, which must be the one of this key; raises FormatError."""
    try:
        # A frame states its decoded size, and zstd enforces it: nothing grows past the limit.
        if not 0 < zstandard.get_frame_parameters(data).content_size <= _RECORD_LIMIT:
            raise FormatError("its decoded size exceeds the limit")
        return Record.decode(zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False), key=key)
    except zstandard.ZstdError as error:
        raise FormatError(f"it is not compressed with zstd: {error}") from None


def _name(key: str, kind: str) -> str:
    return f"{key[:2]}/{key}.{kind}"


def _check(key: str, kind: str, data: bytes) -> None:
    """Raise FormatError unless these bytes are a file as a store writes it."""
    decode_record(data, key) if kind == "record" else decode_requested_facts(data)
