"""A fetch: index, ops and blobs of a cache, each checked before the next is asked for, and then all put into place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from precast.loader.contract.distribution.reference import read_reference
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import Index, digest
from precast.loader.contract.values import Immutable
from precast.loader.errors import CacheError, ConfigError, FetchError, FormatError, IntegrityError
from precast.loader.fetch.download import Download
from precast.loader.fetch.source import HUB, Source, open_source
from precast.loader.fetch.staging import Staging, hold
from precast.loader.resolve.cache import Cache
from precast.loader.transport.credentials import Login, registry_login
from precast.loader.transport.patience import PATIENCE, Patience
from precast.loader.transport.progress import Progress, amount
from precast.loader.transport.web import Web

THREADS = 8
_ROUNDS = 2  # what is damaged is fetched once more
_SHOWN = 5


class Fetched(Immutable, kw_only=True):
    """What a fetch has done. ``digest`` is that of the index, ``reference`` names exactly what was read, ``came``
    counts the bytes that came over the network, and ``reused`` those that were on the disk before.
    """

    path: Path
    name: str
    digest: str
    reference: str
    artifacts: int
    came: int
    reused: int
    changed: bool

    @property
    def pin(self) -> str:
        """The pin of this cache, for ``PRECAST_PIN``."""
        return f"{self.name}={self.digest}"

    def to_json(self) -> dict[str, object]:
        return {
            "cache": str(self.path),
            "name": self.name,
            "digest": self.digest,
            "pin": self.pin,
            "reference": self.reference,
            "artifacts": self.artifacts,
            "fetched": self.came,
            "reused": self.reused,
            "changed": self.changed,
        }

    def __str__(self) -> str:
        moved = f"{amount(self.came)} fetched, {amount(self.reused)} reused" if self.changed else "it was there already"
        return f"{self.path}: {self.artifacts} artifacts of {self.reference}, {moved}\nPRECAST_PIN={self.pin}"


def fetch(
    reference: str,
    path: str | os.PathLike[str],
    *,
    digest: str = "",
    reuse: Sequence[str | os.PathLike[str]] = (),
    threads: int = THREADS,
    patience: Patience = PATIENCE,
    progress: Progress | None = None,
    login: Callable[[str], Login | None] = registry_login,
) -> Fetched:
    """Fetch the cache that a reference names, and put it at ``path`` as a whole.

    Parameters
    ----------
    reference
        ``oci://HOST/NAME:TAG``, ``hf://OWNER/NAME@REVISION``, ``https://HOST/FOLDER`` or ``file:///FOLDER``.
    path
        The folder of the cache: nothing, an empty folder, or a cache, which is replaced.
    digest
        The SHA-256 that ``index.json`` must have, as ``precast push`` prints it. Where the cache at ``path`` has it
        and is intact, nothing is asked of the network.
    reuse
        Folders of other caches, whose blobs are taken in place of fetching the same. The one at ``path`` always is.

    Raises
    ------
    ConfigError
        The reference, the digest or the path is not one.
    FetchError
        The server refused, or could not be reached; or the disk is full. What was at ``path`` is unchanged.
    IntegrityError
        What came is not what its digest promises.
    """
    found, wanted, target = read_reference(reference), checked_digest(digest), Path(os.path.abspath(path))
    progress = progress or Progress()
    with hold(target, progress.tell) as staging:
        if wanted and (kept := _intact(target, wanted)):
            return _result(Path(path), kept, str(found), came=0, reused=0, changed=False)
        hub = os.environ.get("HF_ENDPOINT", "").rstrip("/") or HUB
        with Web(patience, progress.tell) as web:
            source = open_source(found, web, hub=hub, pinned=bool(wanted), login=login)
            caches = [target, *map(Path, reuse)]
            work = _Fetch(source, staging, Download(source, staging, web, progress), threads, progress, caches)
            work.index(wanted)
            if kept := _intact(target, work.digest):
                return _result(Path(path), kept, source.pinned, came=work.came, reused=0, changed=False)
            work.ops()
            work.blobs()
        staging.install(work.names)
        return _result(Path(path), Cache(target), source.pinned, came=work.came, reused=work.reused, changed=True)


def checked_digest(text: str) -> str:
    """A SHA-256 that a user gave, with or without ``sha256:`` before it; empty where none was given.

    >>> checked_digest("sha256:" + "0" * 64) == "0" * 64
    True
    >>> checked_digest("latest")
    Traceback (most recent call last):
    precast.loader.errors.ConfigError: 'latest' is not a digest: give the 64 digits of 'sha256sum index...
    """
    found = text.strip().lower().removeprefix("sha256:")
    if text and re.fullmatch("[0-9a-f]{64}", found) is None:
        raise ConfigError(f"{text[:80]!r} is not a digest: give the 64 digits of 'sha256sum index.json'")
    return found


class _Fetch:
    """One fetch, step by step."""

    def __init__(
        self,
        source: Source,
        staging: Staging,
        download: Download,
        threads: int,
        progress: Progress,
        caches: Sequence[Path],
    ) -> None:
        self._source, self._staging, self._download = source, staging, download
        self._threads, self._progress, self._caches = threads, progress, caches
        self.reused = 0
        self.digest = ""
        self.names: list[str] = []

    @property
    def came(self) -> int:
        """The bytes that came over the network, but for manifests and tables."""
        return self._download.came

    def index(self, wanted: str) -> None:
        """Get the index, and check that it is the one that is wanted."""
        data = self._source.index()
        if data is None:
            self._staging.drop("index.json")
            self._transfer({"index.json": self._source.index_size()})
            data = (self._staging.cache / "index.json").read_bytes()
        else:
            self._staging.put("index.json", data)
        self.digest = digest(data)
        if wanted and self.digest != wanted:
            raise IntegrityError(
                f"{self._source.pinned} has an index with the digest {self.digest}, and {wanted} is wanted: it was"
                " replaced there, or is another cache; fetch what is wanted, or give the new digest if you trust it"
            )
        try:
            self._index = Index.decode(data)
        except FormatError as error:
            raise FetchError(f"{self._source.pinned}: index.json: {error}") from None

    def ops(self) -> None:
        """Get the file of each op: from caches that are here, else from the source."""
        entries = {f"ops/{op}.json": entry for op, entry in self._index.ops.items()}
        wanted = {name: entry.size for name, entry in entries.items()}
        self._staging.take(wanted, self._caches)
        here = {name for name in wanted if self._staging.has(name, wanted[name])}
        right = {name for name in here if digest((self._staging.cache / name).read_bytes()) == entries[name].sha256}
        self._transfer({name: size for name, size in wanted.items() if name not in right})
        self.names = ["index.json", *wanted]

    def blobs(self) -> None:
        """Get every blob: from caches that are here, else from the source. Each is read as the loader will read it."""
        try:
            cache = Cache(self._staging.cache)
            blobs = {f"blobs/{one.sha256}": one for one in _blobs(cache)}
        except (CacheError, FormatError) as error:
            raise IntegrityError(f"{self._source.pinned} does not hold what its index promises: {error}") from None
        self.names += blobs
        self._staging.keep_only(self.names)
        self._staging.take({name: blob.stored for name, blob in blobs.items()}, self._caches)
        here = {name: blob for name, blob in blobs.items() if self._staging.has(name, blob.stored)}
        words = cache.index.dictionary
        fetched: set[str] = set()
        if here and words:  # without it no other can be read, and all would be fetched again
            fetched = self._complete(cache, {f"blobs/{words.sha256}": words})
        fetched |= self._complete(cache, blobs)
        self.reused = sum(blob.stored for name, blob in blobs.items() if name not in fetched)

    def _complete(self, cache: Cache, blobs: Mapping[str, Blob]) -> set[str]:
        """Fetch those of some blobs that are not here as the index promises, and return their names."""
        missing = {name for name, blob in blobs.items() if not self._staging.has(name, blob.stored)}
        missing |= self._staging.damaged(cache, {n: b for n, b in blobs.items() if n not in missing}).keys()
        fetched, damaged = set(missing), dict.fromkeys(missing, "")
        for _ in range(_ROUNDS):
            if not damaged:
                break
            self._transfer({name: blobs[name].stored for name in damaged})
            damaged = self._staging.damaged(cache, _in_order(cache, {name: blobs[name] for name in damaged}))
        if damaged:
            reasons = "\n".join(list(damaged.values())[:_SHOWN])
            raise IntegrityError(f"{self._source.pinned} holds {len(damaged)} damaged blobs: push it again\n{reasons}")
        return fetched

    def _transfer(self, wanted: Mapping[str, int]) -> None:
        transfers = self._source.plan(wanted)
        found = {member.name for transfer in transfers for member in transfer.members}
        lacking = sorted(wanted.keys() - found)
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise IntegrityError(
                f"{self._source.pinned} has no {lacking[0]}{more} in the size that its index promises: if it was"
                " replaced while it was read, run this again; else push it again"
            )
        coming = sum(transfer.size for transfer in transfers)
        self._staging.room(coming + sum(wanted.values()))
        self._progress.expect(coming)
        self._download.run(transfers, self._threads)


def _blobs(cache: Cache) -> tuple[Blob, ...]:
    """Every blob that a cache names, by the parts of its ops' files that are read."""
    named = [artifact.blob for op in cache.index.ops for artifact in cache.op(op).artifacts]
    named += [runtime.blob for runtime in cache.index.runtimes]
    named += [cache.index.dictionary] if cache.index.dictionary else []
    return tuple({blob.sha256: blob for blob in named}.values())


def _in_order(cache: Cache, blobs: Mapping[str, Blob]) -> dict[str, Blob]:
    """The dictionary first: without it no other can be read."""
    first = cache.index.dictionary.sha256 if cache.index.dictionary else ""
    return dict(sorted(blobs.items(), key=lambda item: item[1].sha256 != first))


def _intact(path: Path, wanted: str) -> Cache | None:
    """The cache at a path where its index has a digest and every byte is as that promises; else None."""
    try:
        cache = Cache(path)
        if cache.digest != wanted:
            return None
        for blob in _blobs(cache):
            cache.read(blob)
    except (CacheError, FormatError):
        return None
    return cache


def _result(path: Path, cache: Cache, reference: str, *, came: int, reused: int, changed: bool) -> Fetched:
    return Fetched(
        path=path,
        name=cache.name,
        digest=cache.digest,
        reference=reference,
        artifacts=sum(entry.artifacts for entry in cache.index.ops.values()),
        came=came,
        reused=reused,
        changed=changed,
    )
