"""The store: records of built variants by their keys, shared by all builds of a user, valid after any interruption.

It grows with every variant that is built, until it is pruned (``precast store --prune``): see ``prune.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import zstandard

from precast.build.disk.last_use import mark_used
from precast.build.disk.memo import Memo
from precast.build.disk.scratch import WRITING, sweep, write_atomically
from precast.build.gpu.profile import Profile
from precast.build.inputs.input_answers import InputAnswers
from precast.build.store.asked import Asked, decode_asked, encode_asked
from precast.build.store.key import artifact_key, record_key
from precast.build.store.record import Record
from precast.loader.errors import FormatError

_LEVEL = 3
_RECORD_LIMIT = 1 << 30
_MOST_SETS = 16  # a variant that asks in more ways is built again now and then


def default_store() -> Path:
    """Where records are kept unless a build says otherwise: ``PRECAST_STORE``, or a folder in the user's cache."""
    named = os.environ.get("PRECAST_STORE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "store"


class Store:
    """A folder of records. One that cannot be read completely counts as absent, with a warning, and is built again.

    A variant has a file with the names of what it asked: facts of its GPU, and inputs, such as files. And it has a
    record for every set of answers that it was built with: it is built again when one of those answers changes, and
    for no other reason. What it asks may depend on an earlier answer, so that it asks one GPU for other facts than
    another: the file then has the names of each. ``answers`` says what the inputs are now; a build sets it before it
    asks for records. The time at which a file was last modified is that of its last use.
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = path
        self.notes = Memo(path / "notes")
        self.answers: InputAnswers | None = None
        self._warn = warn
        self._refused: set[Path] = set()

    def sweep(self) -> None:
        """Remove the temporary files of builds that were killed."""
        if self.path.is_dir():
            for folder in [*self.path.glob("??"), *self.notes.path.glob("*")]:
                sweep(folder, WRITING)

    def prepare(self, wanted: Iterable[tuple[str, Profile]]) -> None:
        """Fetch what will be asked for; a folder on this machine has nothing to fetch."""

    def share(self, wanted: Iterable[tuple[str, Profile]]) -> None:
        """Send what is here of these variants to others; a folder on this machine has no others."""

    def finish(self) -> None:
        """Wait until all that was put has arrived; in a folder it has at once."""

    def mark_used(self, wanted: Iterable[tuple[str, Profile]]) -> None:
        """Record the use of these variants by a build that does not read them, because its cache is up to date."""
        for key, profile in wanted:
            if (found := self.record_key(key, profile)) is not None:
                mark_used(self.record_file(found))

    def record_key(self, key: str, profile: Profile) -> str | None:
        """The key of the record that a variant has with the answers of this moment; None where there is none here."""
        return next((one for one in self._keys_now(key, profile) if self.record_file(one).is_file()), None)

    def key_now(self, key: str, profile: Profile, asked: Asked) -> str | None:
        """The key of a record of a variant that asked for these names, with the answers of this moment.

        None where something of an installed package is not as it was.
        """
        if self.answers is None:
            return None if asked.inputs or asked.installed else record_key(key, profile.answers(asked.facts))
        if asked.digest != self.answers.digest(asked.installed):
            return None
        return record_key(key, profile.answers(asked.facts), self.answers.answers(asked.inputs))

    def get(self, key: str, profile: Profile) -> Record | None:
        """The record of a variant's key, built with the answers that hold now, or None.

        A record must itself say so: one under a key that its own facts and inputs do not make is not used.
        """
        for found in self._keys_now(key, profile):
            record = self.read(found)
            if record is not None and self._agrees(record, key, found):
                return record
        return None

    def refuse(self, path: Path, why: object) -> None:
        """Say once that a file of the store is not used."""
        if path not in self._refused:
            self._refused.add(path)
            self._warn(f"{path} is not used: {why}; what it stands for is built again, and replaces it")

    def _agrees(self, record: Record, key: str, found: str) -> bool:
        if record_key(key, record.assumed, record.inputs.answers) != found:
            self.refuse(self.record_file(found), "what it says that it was made of belongs to another key")
            return False
        return self.answers is None or not record.installed.changed(self.answers.answers(record.installed.names))

    def put(self, key: str, record: Record) -> None:
        """Keep the record of a variant's key. Other builds see all of it or nothing, and may write the same one."""
        data = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(record.encode())
        self._keep(record.key, "record", data)
        asked, known = Asked.of(record), self._asked(key)
        if asked not in known:
            kept = [one for one in known if one != Asked() and (one.facts, one.inputs) != (asked.facts, asked.inputs)]
            self._keep(key, "asked", encode_asked([asked, *kept][:_MOST_SETS]))

    def _keys_now(self, key: str, profile: Profile) -> Iterator[str]:
        """The keys that a record of a variant may have now, by what it asked when it was built."""
        for asked in self._asked(key):
            if (found := self.key_now(key, profile, asked)) is not None:
                yield found

    def _asked(self, key: str) -> tuple[Asked, ...]:
        """What the variant asked for when it was built, each set of names once; where nothing is known, nothing."""
        data = self._load(key, "asked")
        try:
            return (Asked(),) if data is None else decode_asked(data)
        except FormatError as error:
            self.refuse(self._file(key, "asked"), error)
            return (Asked(),)

    def read(self, key: str) -> Record | None:
        """The record with exactly this key, or None."""
        data = self._load(key, "record")
        try:
            return None if data is None else _record(data, key)
        except FormatError as error:
            self.refuse(self.record_file(key), error)
            return None

    def made(self, artifact: str, op: str, kind: str) -> Record | None:
        """The record that an artifact was made of, by the artifact's key, if it is here."""
        for path in sorted(self.path.glob("??/*.record")):
            if artifact_key(path.stem, op, kind) == artifact:
                return self.read(path.stem)
        return None

    def record_file(self, key: str) -> Path:
        """Where the record with this key is, or would be."""
        return self._file(key, "record")

    def _check(self, key: str, kind: str, data: bytes) -> None:
        """Raise FormatError unless these bytes are a file as this store writes them."""
        _record(data, key) if kind == "record" else decode_asked(data)

    def _load(self, key: str, kind: str) -> bytes | None:
        path = self._file(key, kind)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        mark_used(path)
        return data

    def _keep(self, key: str, kind: str, data: bytes) -> None:
        write_atomically(self._file(key, kind), data)

    def _file(self, key: str, kind: str) -> Path:
        return self.path / key[:2] / f"{key}.{kind}"


def _record(data: bytes, key: str) -> Record:
    try:
        # A frame states its decoded size, and zstd enforces it: nothing grows past the limit.
        if not 0 < zstandard.get_frame_parameters(data).content_size <= _RECORD_LIMIT:
            raise FormatError("it decodes to too much")
        return Record.decode(zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False), key=key)
    except zstandard.ZstdError as error:
        raise FormatError(f"it is not compressed as it should be: {error}") from None
