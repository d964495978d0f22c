"""A fetch: the index, ops and blobs of a cache, each checked before the next is requested, then installed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from precast.fetch.distribution.reference import read_reference
from precast.fetch.download import Download
from precast.fetch.source import HUB, Source, open_source
from precast.fetch.staging import Staging, hold
from precast.fetch.transport.credentials import Login, registry_login
from precast.fetch.transport.patience import PATIENCE, Patience
from precast.fetch.transport.progress import Progress
from precast.fetch.transport.web import Web
from precast.fetch.trust.bundle import BUNDLE_FILE, bundle_in
from precast.fetch.trust.policy import TrustPolicy
from precast.loader.command_line.text import count, size
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import Index, digest
from precast.loader.contract.values import Immutable
from precast.loader.errors import (
    CacheError,
    ConfigError,
    FetchError,
    FormatError,
    IntegrityError,
    SignatureError,
)
from precast.loader.resolve.cache import Cache

THREADS = 8
_ROUNDS = 2  # what is damaged is fetched once more
_SHOWN = 5


class Fetched(Immutable, kw_only=True):
    """The result of a fetch. ``digest`` is that of the index, ``reference`` names exactly what was read, ``received``
    counts the bytes that came over the network, and ``reused`` those that were on the disk before. ``trusted`` says
    why the policy accepts it, where there is one.
    """

    path: Path
    name: str
    digest: str
    reference: str
    artifacts: int
    received: int
    reused: int
    changed: bool
    trusted: str = ""

    @property
    def pin(self) -> str:
        """The pin of this cache, for ``PRECAST_PIN``."""
        return f"{self.name}={self.digest}"

    def to_json(self) -> dict[str, object]:
        """The result for machines."""
        return {
            "cache": str(self.path),
            "name": self.name,
            "digest": self.digest,
            "pin": self.pin,
            "reference": self.reference,
            "artifacts": self.artifacts,
            "fetched": self.received,
            "reused": self.reused,
            "changed": self.changed,
            **({"trusted": self.trusted} if self.trusted else {}),
        }

    def __str__(self) -> str:
        moved = f"{size(self.received)} fetched, {size(self.reused)} reused" if self.changed else "already up to date"
        trusted = f", trusted by {self.trusted}" if self.trusted else ""
        artifacts = count(self.artifacts, "artifact")
        return f"{self.path}: {artifacts} of {self.reference}, {moved}{trusted}\nPRECAST_PIN={self.pin}"


def fetch(
    reference: str,
    path: str | os.PathLike[str],
    *,
    digest: str = "",
    reuse: Sequence[str | os.PathLike[str]] = (),
    trust: str | os.PathLike[str] | None = None,
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
        and is intact, the network is not used.
    reuse
        Folders of other caches, whose blobs are copied instead of fetched. The cache at ``path`` is always reused.
    trust
        The file of a policy. A cache that it does not accept is refused before its ops and blobs are requested.

    Raises
    ------
    ConfigError
        The reference, the digest or the path is not valid.
    FetchError
        The server refused, or could not be reached; or the disk is full. What was at ``path`` is unchanged.
    IntegrityError
        What came is not what its digest promises.
    SignatureError
        The policy does not accept who signed the cache.
    """
    parsed, expected, target = read_reference(reference), checked_digest(digest), Path(os.path.abspath(path))
    policy = TrustPolicy.read(trust) if trust is not None else None
    progress = progress or Progress()
    with hold(target, progress.report) as staging:
        if expected and (kept := _intact(target, expected)) and (by := _accepted_here(kept, policy)) is not None:
            return _result(Path(path), kept, str(parsed), received=0, reused=0, changed=False, trusted=by)
        hub = os.environ.get("HF_ENDPOINT", "").rstrip("/") or HUB
        with Web(patience, progress.report) as web:
            source = open_source(parsed, web, hub=hub, pinned=bool(expected), login=login)
            caches = [target, *map(Path, reuse)]
            work = _Fetch(source, staging, Download(source, staging, web, progress), threads, progress, caches)
            work.index(expected)
            by = work.trusted(policy) if policy else ""
            if kept := _intact(target, work.digest):
                received = work.received
                return _result(Path(path), kept, source.pinned, received=received, reused=0, changed=False, trusted=by)
            work.ops()
            work.blobs()
        staging.install(work.names)
        cache, received = Cache(target), work.received
        return _result(
            Path(path), cache, source.pinned, received=received, reused=work.reused, changed=True, trusted=by
        )


def checked_digest(text: str) -> str:
    """A SHA-256 that a user gave, with or without ``sha256:`` before it; empty where none was given.

    >>> checked_digest("sha256:" + "0" * 64) == "0" * 64
    True
    >>> checked_digest("latest")
    Traceback (most recent call last):
    precast.loader.errors.ConfigError: 'latest' is not a digest: give the 64 digits of 'sha256sum index...
    """
    normalised = text.strip().lower().removeprefix("sha256:")
    if text and re.fullmatch("[0-9a-f]{64}", normalised) is None:
        raise ConfigError(f"{text[:80]!r} is not a digest: give the 64 digits of 'sha256sum index.json'")
    return normalised


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
        self.names = ["index.json"]

    @property
    def received(self) -> int:
        """The bytes that came over the network, except manifests and tables."""
        return self._download.received

    def index(self, expected: str) -> None:
        """Get the index, and check that it has the expected digest."""
        data = self._source.index()
        if data is None:
            self._staging.drop("index.json")
            self._transfer({"index.json": self._source.index_size()})
            data = (self._staging.cache / "index.json").read_bytes()
        else:
            self._staging.put("index.json", data)
        self.digest = digest(data)
        if expected and self.digest != expected:
            raise IntegrityError(
                f"{self._source.pinned} has an index with the digest {self.digest}, not {expected}: it was"
                " replaced, or is another cache; correct the reference, or give the new digest if you trust it"
            )
        try:
            self._index = Index.decode(data)
        except FormatError as error:
            raise FetchError(f"{self._source.pinned}: index.json: {error}") from None

    def trusted(self, policy: TrustPolicy) -> str:
        """Why the policy accepts the cache with this index; its signature then becomes a part of the cache."""
        try:
            bundles = self._source.bundles()
        except FormatError as error:
            raise FetchError(f"{self._source.pinned}: its signatures: {error}: sign and push it again") from None
        accepted = policy.accept(self._index.name, self.digest, bundles)
        if accepted.bundle:
            self._staging.put(BUNDLE_FILE, accepted.bundle)
            self.names.append(BUNDLE_FILE)
        return accepted.by

    def ops(self) -> None:
        """Get the file of each op: from caches on this disk, else from the source."""
        entries = {f"ops/{op}.json": entry for op, entry in self._index.ops.items()}
        sizes = {name: entry.size for name, entry in entries.items()}
        self._staging.take(sizes, self._caches)
        for _ in range(_ROUNDS):
            wrong = {
                name: size for name, size in sizes.items() if not self._staging.has(name, size, entries[name].sha256)
            }
            if not wrong:
                break
            self._transfer(wrong)
        self.names += sizes

    def blobs(self) -> None:
        """Get every blob: from caches on this disk, else from the source. Each is read as the loader will read it."""
        try:
            cache = Cache(self._staging.cache)
            companions = cache.index.companions
            listing = {f"blobs/{companions.sha256}": companions} if companions else {}
            fetched = self._complete(cache, listing)  # it names further blobs
            blobs = {f"blobs/{blob.sha256}": blob for blob in _blobs(cache)}
        except (CacheError, FormatError) as error:
            raise IntegrityError(f"{self._source.pinned} does not hold what its index promises: {error}") from None
        self.names += blobs
        self._staging.keep_only(self.names)
        self._staging.take({name: blob.stored for name, blob in blobs.items()}, self._caches)
        here = {name: blob for name, blob in blobs.items() if self._staging.has(name, blob.stored)}
        dictionary = cache.index.dictionary
        if here and dictionary:  # without it no other blob can be read, and all would be fetched again
            fetched |= self._complete(cache, {f"blobs/{dictionary.sha256}": dictionary})
        fetched |= self._complete(cache, blobs)
        self.reused = sum(blob.stored for name, blob in blobs.items() if name not in fetched)

    def _complete(self, cache: Cache, blobs: Mapping[str, Blob]) -> set[str]:
        """Fetch the blobs that are missing or damaged, and return their names."""
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

    def _transfer(self, sizes: Mapping[str, int]) -> None:
        transfers = self._source.plan(sizes)
        planned = {member.name for transfer in transfers for member in transfer.members}
        missing = sorted(sizes.keys() - planned)
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise IntegrityError(
                f"{self._source.pinned} has no {missing[0]}{more} of the size that its index states: if it was"
                " replaced while it was read, run this again; else push it again"
            )
        total = sum(transfer.size for transfer in transfers)
        self._staging.room(total + sum(sizes.values()))
        self._progress.expect(total)
        self._download.run(transfers, self._threads)


def _blobs(cache: Cache) -> tuple[Blob, ...]:
    """Every blob that a cache names."""
    named = [blob for op in cache.index.ops for artifact in cache.op(op).artifacts for blob in artifact.blobs]
    named += [runtime.blob for runtime in cache.index.runtimes]
    named += [cache.index.dictionary] if cache.index.dictionary else []
    companions = cache.companions()
    named += [cache.index.companions, *companions.blobs] if companions and cache.index.companions else []
    return tuple({blob.sha256: blob for blob in named}.values())


def _in_order(cache: Cache, blobs: Mapping[str, Blob]) -> dict[str, Blob]:
    """The dictionary first: without it no other can be read."""
    first = cache.index.dictionary.sha256 if cache.index.dictionary else ""
    return dict(sorted(blobs.items(), key=lambda item: item[1].sha256 != first))


def _accepted_here(cache: Cache, policy: TrustPolicy | None) -> str | None:
    """Why a policy accepts a cache on the disk by the signature beside it; None if it does not."""
    if policy is None:
        return ""
    try:
        bundle = bundle_in(cache.path)
        return policy.accept(cache.name, cache.digest, () if bundle is None else (bundle,)).by
    except (CacheError, SignatureError):
        return None


def _intact(path: Path, expected: str) -> Cache | None:
    """The cache at a path if its index has the digest and every blob is intact; else None."""
    try:
        cache = Cache(path)
        if cache.digest != expected:
            return None
        for blob in _blobs(cache):
            cache.read(blob)
    except (CacheError, FormatError):
        return None
    return cache


def _result(
    path: Path, cache: Cache, reference: str, *, received: int, reused: int, changed: bool, trusted: str
) -> Fetched:
    return Fetched(
        path=path,
        name=cache.name,
        digest=cache.digest,
        reference=reference,
        artifacts=sum(entry.artifacts for entry in cache.index.ops.values()),
        received=received,
        reused=reused,
        changed=changed,
        trusted=trusted,
    )
