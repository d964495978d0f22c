"""Sources: the files of a cache, for every kind of reference, read by ranges of bytes.

A name is resolved once: a tag is read once, and all else by digest; a branch of the hub becomes a commit
first. So a tag or branch that moves during a fetch does not mix two caches.
"""

from __future__ import annotations

import errno
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import quote

from precast.fetch.distribution.image import (
    CONFIG_TYPE,
    read_layers,
    read_manifest,
    read_referrer,
    read_referrers,
)
from precast.fetch.distribution.layers import (
    LAYER_FILES,
    TABLE_FILE,
    TABLE_LIMIT,
    Layer,
    Member,
    Transfer,
    parse_layers,
    plan_transfers,
)
from precast.fetch.distribution.reference import (
    FolderReference,
    HubReference,
    ImageReference,
    Reference,
    is_loopback,
)
from precast.fetch.transport.answer import CHUNK, Body
from precast.fetch.transport.credentials import Login, hub_token, registry_login
from precast.fetch.transport.registry import Registry, checked_version
from precast.fetch.transport.web import Web, shown
from precast.fetch.trust.bundle import BUNDLE_FILE, BUNDLE_LIMIT, BUNDLE_TYPE
from precast.fetch.trust.policy import MOST_BUNDLES
from precast.loader.contract.format.fields import as_object, get, read_json
from precast.loader.contract.format.index import INDEX_LIMIT
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, FetchError, FormatError, IntegrityError
from precast.loader.regular_file import open_regular, read_regular

HUB = "https://huggingface.co"
_HUB_LIMIT = 16 << 20
_NOT_FILES = {errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.EISDIR}
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Files(Protocol):
    """Files by name, read from an offset on."""

    def open(self, name: str, offset: int, size: int) -> AbstractContextManager[Iterator[bytes]]:
        """At most ``size`` bytes of a file from an offset on, as they arrive. TransientError where a retry may help."""
        ...

    def read(self, name: str, limit: int) -> bytes | None:
        """A whole file of at most ``limit`` bytes; None where there is none."""
        ...


class Source(Immutable, kw_only=True):
    """What a reference names: its files, and the layers that hold them, if there are layers."""

    files: Files
    pinned: str
    layers: tuple[Layer, ...] | None = None
    layer_names: str = "{}"
    referring: Callable[[], tuple[bytes, ...]] | None = None  # in a registry, signatures are not files

    def index(self) -> bytes | None:
        """The bytes of ``index.json`` where it is a file of its own; None where it is in a layer."""
        return None if self.layers is not None else self._plain_index()

    def index_size(self) -> int:
        """How large ``index.json`` is in its layer."""
        sizes = [m.size for layer in self.layers or () for m in layer.files if m.name == "index.json"]
        if not sizes or sizes[0] > INDEX_LIMIT:
            raise FormatError(f"{self.pinned} has no index.json: push a cache with 'precast push'")
        return sizes[0]

    def bundles(self) -> tuple[bytes, ...]:
        """The signatures beside the cache, of which nothing was checked."""
        if self.referring:
            return self.referring()
        data = self.files.read(BUNDLE_FILE, BUNDLE_LIMIT)
        return () if data is None else (data,)

    def plan(self, sizes: Mapping[str, int]) -> tuple[Transfer, ...]:
        """What to read to get some files, given with their sizes."""
        if self.layers is not None:
            return plan_transfers(self.layers, sizes, self.layer_names)
        return tuple(
            Transfer(source=name, offset=0, size=size, members=(Member(name, 0, size),))
            for name, size in sorted(sizes.items())
        )

    def _plain_index(self) -> bytes:
        data = self.files.read("index.json", INDEX_LIMIT)
        if data is None:
            raise FetchError(f"{self.pinned} has neither {TABLE_FILE} nor index.json: check the address")
        return data


class WebFiles:
    """Files below a URL. ``headers`` go to that host alone."""

    def __init__(self, web: Web, root: str, headers: Mapping[str, str]) -> None:
        self._web, self._root, self._headers = web, root, headers

    @contextmanager
    def open(self, name: str, offset: int, size: int) -> Iterator[Iterator[bytes]]:
        url = f"{self._root}/{quote(name, safe='/%')}"
        with self._web.open("GET", url, {**self._headers, **_range(offset, size)}) as body:
            yield _ranged(body, offset, size, self._refusal)

    def read(self, name: str, limit: int) -> bytes | None:
        url = f"{self._root}/{quote(name, safe='/%')}"

        def once() -> bytes | None:
            with self._web.open("GET", url, self._headers) as body:
                if body.answer.status == 404:
                    return None
                if body.answer.status != 200:
                    raise self._refusal(body)
                return body.read(limit)

        data: bytes | None = self._web.persist(url, once)
        return data

    def _refusal(self, body: Body) -> FetchError:
        status = body.answer.status
        if status in (401, 403):
            why = "this user may not read it: set HF_TOKEN for the hub, or check who may read it"
        elif status == 404:
            why = "it does not exist: if the cache was replaced while it was read, run this again"
        else:
            why = "check the server"
        return FetchError(f"{body.answer.url}: the server answered {status}; {why}")


class DiskFiles:
    """Files below a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def open(self, name: str, offset: int, size: int) -> Iterator[Iterator[bytes]]:
        try:
            with open(open_regular(self._root / name), "rb") as file:
                file.seek(offset)
                yield _parts(file, size)
        except FileNotFoundError:
            raise FetchError(f"{self._root / name} is missing: if the cache was replaced, run this again") from None
        except PermissionError:
            raise FetchError(f"{self._root / name} is not readable by this user: check its permissions") from None
        except OSError as error:
            if error.errno not in _NOT_FILES:
                raise
            raise FetchError(f"{self._root / name} is a link, or not a regular file: copy the folder") from None

    def read(self, name: str, limit: int) -> bytes | None:
        try:
            return read_regular(self._root / name, limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FetchError(f"{self._root / name} cannot be read ({error.strerror}): check the folder") from None


class RegistryFiles:
    """Blobs of a repository, by their SHA-256."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @contextmanager
    def open(self, name: str, offset: int, size: int) -> Iterator[Iterator[bytes]]:
        with self._registry.open("GET", self._registry.blob_url(name), _range(offset, size)) as body:
            yield _ranged(body, offset, size, lambda body: self._registry.refusal(body.answer, "read a layer"))

    def read(self, name: str, limit: int) -> bytes | None:
        return self._registry.blob(name, limit)


def open_source(
    reference: Reference,
    web: Web,
    *,
    hub: str = HUB,
    pinned: bool = False,
    login: Callable[[str], Login | None] = registry_login,
) -> Source:
    """The source that a reference names. ``pinned`` says whether the caller has the digest of the index."""
    try:
        if isinstance(reference, ImageReference):
            return _image_source(reference, web, login, pinned)
        if isinstance(reference, HubReference):
            return _hub_source(reference, web, hub, pinned)
        return _folder_source(reference, web, pinned)
    except FormatError as error:
        raise FetchError(f"{reference}: {error}") from None


def _image_source(reference: ImageReference, web: Web, login: Callable[[str], Login | None], pinned: bool) -> Source:
    registry = Registry(web, reference, login)
    version = checked_version(reference) if not pinned else reference.digest or reference.tag
    manifest, digest = registry.manifest(version)
    descriptor = read_manifest(manifest, platform.machine())
    if descriptor.kind != CONFIG_TYPE:
        manifest, _ = registry.manifest(f"sha256:{descriptor.sha256}")
        descriptor = read_manifest(manifest, platform.machine())
    if descriptor.kind != CONFIG_TYPE:
        raise FormatError("it is not an image of a cache: push caches with 'precast push'")
    layers = read_layers(manifest, registry.blob(descriptor.sha256, TABLE_LIMIT))
    exact = ImageReference(
        host=reference.host, name=reference.name, tag=reference.tag, digest=digest, plain=reference.plain
    )
    return Source(
        files=RegistryFiles(registry), pinned=str(exact), layers=layers, referring=lambda: _referring(registry, digest)
    )


def _referring(registry: Registry, digest: str) -> tuple[bytes, ...]:
    """The bundles that refer to an image, the last ones first where there are too many."""
    index = registry.referrers(digest)
    referrers = read_referrers(index, BUNDLE_TYPE) if index else ()
    manifests = [registry.manifest(f"sha256:{item.sha256}")[0] for item in referrers[: -MOST_BUNDLES - 1 : -1]]
    return tuple(registry.blob(read_referrer(data, BUNDLE_TYPE).sha256, BUNDLE_LIMIT) for data in manifests)


def _hub_source(reference: HubReference, web: Web, hub: str, pinned: bool) -> Source:
    token = hub_token()
    if not hub.startswith("https://") and not is_loopback(hub.partition("://")[2].partition("/")[0]):
        if token:
            raise ConfigError(f"HF_ENDPOINT is {hub}: the token of the hub is not sent to another machine without TLS")
        if not pinned:
            raise ConfigError(f"HF_ENDPOINT is {hub}, read without TLS: add --digest, with the SHA-256 of the index")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    commit = _commit(reference, WebFiles(web, f"{hub}/api", headers))
    exact = HubReference(kind=reference.kind, name=reference.name, revision=commit, folder=reference.folder)
    kind = "" if reference.kind == "models" else f"{reference.kind}/"
    folder = f"/{quote(reference.folder)}" if reference.folder else ""
    root = f"{hub}/{kind}{reference.name}/resolve/{commit}{folder}"
    return _layered(WebFiles(web, root, headers), str(exact))


def _commit(reference: HubReference, api: WebFiles) -> str:
    """The commit that a revision is now."""
    if _COMMIT.fullmatch(reference.revision):
        return reference.revision
    data = api.read(f"{reference.kind}/{reference.name}/revision/{quote(reference.revision, safe='')}", _HUB_LIMIT)
    if data is None:
        raise FetchError(f"{reference}: the hub has no such repository or revision: check both, and HF_TOKEN")
    commit = get(as_object(read_json(data, limit=_HUB_LIMIT)), "sha", str)
    if _COMMIT.fullmatch(commit) is None:
        raise FormatError(f"{commit[:80]!r} is not a commit", "sha")
    return commit


def _folder_source(reference: FolderReference, web: Web, pinned: bool) -> Source:
    if not reference.secure and not pinned:
        raise ConfigError(f"{reference} is read without TLS: add --digest, with the SHA-256 of the cache's index.json")
    if reference.path:
        if not Path(reference.path).is_dir():
            raise FetchError(f"{reference} is not a folder: check the path")
        return _layered(DiskFiles(Path(reference.path)), str(reference))
    return _layered(WebFiles(web, reference.url, {}), str(reference))


def _layered(files: Files, pinned: str) -> Source:
    """A folder with layers where it has their table, else the folder of a cache."""
    table = files.read(TABLE_FILE, TABLE_LIMIT)
    if table is None:
        return Source(files=files, pinned=pinned)
    layers = parse_layers(read_json(table, limit=TABLE_LIMIT))
    return Source(files=files, pinned=pinned, layers=layers, layer_names=LAYER_FILES)


def _parts(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (part := file.read(min(CHUNK, size))):
        size -= len(part)
        yield part


def _range(offset: int, size: int) -> dict[str, str]:
    return {"Range": f"bytes={offset}-{offset + size - 1}"}


def _ranged(body: Body, offset: int, size: int, refusal: Callable[[Body], FetchError]) -> Iterator[bytes]:
    """The bytes of a range, also from a server that returns the whole file."""
    answer = body.answer
    if answer.status == 206:
        stated = answer.headers.get("content-range", "")
        if re.fullmatch(rf"bytes {offset}-[0-9]+/([0-9]+|\*)", stated) is None:
            raise IntegrityError(
                f"{shown(answer.url)} returned another range than the requested one, {stated[:80]!r}: check the server"
            )
        return body.chunks(size)
    if answer.status == 200:
        return _skipped(body, offset, size)
    if answer.status == 416:
        raise IntegrityError(f"{shown(answer.url)} is smaller than it should be: if it was replaced, run this again")
    raise refusal(body)


def _skipped(body: Body, offset: int, size: int) -> Iterator[bytes]:
    for chunk in body.chunks(offset + size):
        kept = chunk[offset:] if offset < len(chunk) else b""
        offset = max(offset - len(chunk), 0)
        if kept:
            yield kept
