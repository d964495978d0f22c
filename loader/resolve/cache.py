"""Caches: a directory of artifacts. No byte of it is used before it was checked against the index."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.config import suggest
from precast.loader.contract.format.index import INDEX_LIMIT, Index, OpEntry, digest
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.errors import CacheError, FormatError, IntegrityError, OpNotFound
from precast.loader.fast_start.zstandard_backend import zstandard_backend
from precast.loader.locks import IMPORT_LOCK, OnceTable
from precast.loader.regular_file import FLAGS, read_at_most

if TYPE_CHECKING:
    from precast.loader.contract.format.companion_index import CompanionIndex
    from precast.loader.resolve.pins import Pins

_BLOBS = "blobs"
OVERRIDE = "PRECAST_ALLOW_UNSAFE_CACHES"


class Cache:
    """One cache directory, opened for reading. Its index is read at once; an op's file and a blob, when needed.

    Parameters
    ----------
    path
        The directory that holds ``index.json``.
    origin
        How it was found, for people.
    pins
        The digests that the index must have one of, by the name of the cache.

    A pinned index makes all below it tamper-evident: it holds the digest of every op's file, and these of every blob.
    So a pinned cache may belong to any user: its owner can make it unreadable, and nothing else.
    """

    def __init__(self, path: str | os.PathLike[str], origin: str = "", *, pins: Pins | None = None) -> None:
        self.path = Path(path)
        self.origin = origin or str(path)
        self._folders = threading.local()  # descriptors of open folders, by name
        self._pinned = pins is not None  # an index that no pin names does not get past __init__
        if not self.path.is_dir():
            raise CacheError(f"{path} is not a folder that can be read: give the folder of a cache")
        data = self.file("index.json", limit=INDEX_LIMIT)
        self.digest = digest(data)
        self.index = self._decode_index(data)
        if pins is not None:
            self._check_pin(pins)
        self._ops = OnceTable()
        self._dictionary = OnceTable()
        self._decoders = threading.local()

    @property
    def name(self) -> str:
        """The name its manifest gave it."""
        return self.index.name

    def __repr__(self) -> str:
        count = len(self.index.ops)
        return f"<Cache {self.name!r} at {str(self.path)!r}, {count} op{'' if count == 1 else 's'}>"

    def op(self, op: str) -> OpReader:
        """The artifacts of an op, from its file, whose digest is in ``index.json``."""
        entry = self.index.ops.get(op)
        if entry is None:
            raise OpNotFound(f"cache {self.name!r} holds no op {op!r}{suggest(op, self.index.ops)}")
        return self._ops.get(op, lambda: self._read_op(op, entry))

    def read(self, blob: Blob) -> bytes:
        """The decoded bytes of a blob, which are exactly those that the index promises."""
        name = f"blobs/{blob.sha256}"
        data = self._decode(blob, self.file(_BLOBS, blob.sha256, limit=blob.stored, exact=True), name)
        if len(data) != blob.size or digest(data) != blob.sha256:
            raise self._corrupt(name, "its content is not what the index promises")
        return data

    def companions(self) -> CompanionIndex | None:
        """The companion index, checked; None if the cache has no companions."""
        blob = self.index.companions
        if blob is None:
            return None
        with IMPORT_LOCK:
            from precast.loader.contract.format.companion_index import CompanionIndex
        try:
            return CompanionIndex.decode(self.read(blob))
        except FormatError as error:
            raise _unreadable(self.path / _BLOBS / blob.sha256, error) from None

    @contextmanager
    def many_blobs(self) -> Iterator[None]:
        """Within this, the thread reads blobs below one open folder, which was looked up and checked once.

        A folder that cannot be opened, or is not safe, is an error of each blob that is read.
        """
        folders = self._folders.__dict__
        with ExitStack() as stack:
            with suppress(OSError):
                descriptors = stack.enter_context(_open_beneath(self.path, (_BLOBS,), os.O_DIRECTORY))
                facts = [os.fstat(part) for part in descriptors]
                if _BLOBS not in folders and self._objection(facts, (_BLOBS,)) is None:
                    folders[_BLOBS] = descriptors[-1]
                    stack.callback(folders.pop, _BLOBS)
            yield

    def _check_pin(self, pins: Pins) -> None:
        with IMPORT_LOCK:
            from precast.loader.resolve.pins import refusal
        refused = refusal(self.index.name, self.digest, pins)
        if refused:
            raise IntegrityError(f"{self.path / 'index.json'}: {refused}")

    def _decode_index(self, data: bytes) -> Index:
        try:
            return Index.decode(data)
        except FormatError as error:
            raise _unreadable(self.path / "index.json", error) from None

    def _read_op(self, op: str, entry: OpEntry) -> OpReader:
        name = f"{op}.json"
        data = self.file("ops", name, limit=entry.size, exact=True)
        if digest(data) != entry.sha256:
            raise self._corrupt(f"ops/{name}", "its digest is not the one in index.json")
        try:
            reader = OpReader.decode(data, op=op, path=str(self.path / "ops" / name))
        except FormatError as error:
            raise _unreadable(self.path / "ops" / name, error) from None
        if len(reader.rows) != entry.artifacts:
            raise self._corrupt(f"ops/{name}", f"it lists {len(reader.rows)} artifacts, not {entry.artifacts}")
        return reader

    def _decode(self, blob: Blob, stored: bytes, name: str) -> bytes:
        if blob.encoding == "raw":
            return stored
        zstandard = zstandard_backend()
        try:
            # A frame states its decoded size, and zstd enforces it: nothing grows past the size in the index.
            if zstandard.get_frame_parameters(stored).content_size != blob.size:
                raise self._corrupt(name, "it does not decode to the size the index promises")
            decoder = self._decoder(blob.encoding, name)
            return bytes(decoder.decompress(stored, max_output_size=blob.size, allow_extra_data=False))
        except zstandard.ZstdError as error:
            raise self._corrupt(name, f"it is not readable as {blob.encoding} ({error})") from None

    def _decoder(self, encoding: str, name: str) -> Any:
        """The decoder of this thread: one serves one thread, and making it takes longer than decoding most blobs."""
        mine = self._decoders.__dict__
        if encoding not in mine:
            dictionary = self._zstd_dictionary(name) if encoding == "zstd+dictionary" else None
            mine[encoding] = zstandard_backend().ZstdDecompressor(dict_data=dictionary)
        return mine[encoding]

    def _zstd_dictionary(self, name: str) -> Any:
        blob = self.index.dictionary
        if blob is None or blob.encoding == "zstd+dictionary":
            raise self._corrupt(name, "it needs a dictionary, and the index names no readable one")
        return self._dictionary.get(blob.sha256, lambda: zstandard_backend().ZstdCompressionDict(self.read(blob)))

    def file(self, *parts: str, limit: int, exact: bool = False) -> bytes:
        """A regular file of the cache, reached without following a link, and no longer than ``limit``.

        Its bytes are not checked.
        """
        name = "/".join(parts)
        try:
            with _open_beneath(self.path, parts, parent=self._folders.__dict__.get(parts[0])) as descriptors:
                facts = [os.fstat(part) for part in descriptors]
                if not stat.S_ISREG(facts[-1].st_mode):
                    raise CacheError(f"{self.path / name} is not a regular file: rebuild or reinstall the cache")
                objection = self._objection(facts, parts)
                if objection:
                    raise CacheError(objection)
                data = read_at_most(descriptors[-1], limit + 1, facts[-1].st_size)
        except FileNotFoundError:
            raise self._missing(name) from None
        except OSError as error:
            raise CacheError(
                f"{self.path / name} cannot be read ({error.strerror}): a cache holds plain files and folders that"
                " this user may read, and no links; reinstall it"
            ) from None
        if len(data) > limit or (exact and len(data) != limit):
            raise self._corrupt(name, f"it should have {'' if exact else 'at most '}{limit} bytes")
        return data

    def _objection(self, facts: list[os.stat_result], parts: tuple[str, ...]) -> str | None:
        """Why a part of the cache is not safe to use, or None. ``facts`` are of the last parts of a path."""
        for depth, part in enumerate(facts, len(parts) + 1 - len(facts)):
            unsafe = _unsafe(part, self._pinned)
            if unsafe:
                return f"{self.path.joinpath(*parts[:depth])} {unsafe}"
        return None

    def _missing(self, name: str) -> CacheError:
        if name == "index.json":
            return CacheError(f"{self.path} holds no index.json: give the directory that 'precast build -o' wrote")
        return IntegrityError(
            f"{self.path / name} is missing: reinstall the cache; if it was replaced while this process ran, restart"
        )

    def _corrupt(self, name: str, what: str) -> IntegrityError:
        return IntegrityError(f"{self.path / name} is damaged: {what}. Rebuild or reinstall the cache")


def _unreadable(path: Path, error: FormatError) -> CacheError:
    return CacheError(f"{path}: {error}" + ("" if error.remedy else ". Rebuild or reinstall the cache"))


@contextmanager
def _open_beneath(
    root: Path, parts: tuple[str, ...], flags: int = 0, *, parent: int | None = None
) -> Iterator[list[int]]:
    """Open a file below ``root`` one step at a time, so that no step can be a link. A FIFO does not make it wait.

    ``parent`` is a descriptor of the folder of the last part, opened in this way before.
    """
    descriptors: list[int] = []
    try:
        if parent is None:
            descriptors.append(os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY))
            for folder in parts[:-1]:
                descriptors.append(os.open(folder, FLAGS | os.O_DIRECTORY, dir_fd=descriptors[-1]))
        descriptors.append(os.open(parts[-1], FLAGS | flags, dir_fd=descriptors[-1] if descriptors else parent))
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _unsafe(facts: os.stat_result, pinned: bool) -> str | None:
    """Why a part of a cache is not safe to use, or None.

    The code in it runs as this user, so only this user and root may write it, unless a pin fixes its contents.
    """
    if facts.st_mode & stat.S_IWOTH:
        whose, otherwise = "can be written by everyone", ""
    elif facts.st_uid not in (0, os.geteuid()) and not pinned:
        whose, otherwise = f"belongs to another user (uid {facts.st_uid})", "pin it with PRECAST_PIN, "
    else:
        return None
    if os.environ.get(OVERRIDE) == "1":
        return None
    return f"{whose}, who could run code as you: change that, {otherwise}or set {OVERRIDE}=1 to accept it"
