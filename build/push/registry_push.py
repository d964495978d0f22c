"""A push to a registry: first the blobs that it lacks, then the manifest that names them, then the tag.

A reader never sees an incomplete push: the registry moves the tag last, in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urljoin, urlsplit

from precast.fetch.distribution.image import (
    CONFIG_TYPE,
    INDEX_TYPE,
    MANIFEST_TYPE,
    PLATFORMS,
    Descriptor,
    encode_config,
    encode_image_index,
    encode_manifest,
)
from precast.fetch.distribution.layers import Layer
from precast.fetch.distribution.reference import ImageReference
from precast.fetch.transport.registry import Registry
from precast.fetch.transport.web import Web
from precast.loader.contract.format.index import digest
from precast.loader.errors import ConfigError, FetchError

_AT_ONCE = 4
_BINARY = {"Content-Type": "application/octet-stream"}
Advance = Callable[[int], None]


class RegistryPush:
    """A push to one repository. ``mount`` names another repository of the registry that may have some of the blobs."""

    def __init__(self, web: Web, registry: Registry, mount: str = "", advance: Advance = lambda number: None) -> None:
        self._web, self._registry, self._mount, self._advance = web, registry, mount, advance
        self.sent = self.kept = 0

    def image(
        self, layers: Sequence[tuple[Layer, bytes]], hosts: Sequence[str], notes: dict[str, str]
    ) -> ImageReference:
        """Push the image of a cache for these host processors, and return a reference with its digest."""
        reference = self._registry.reference
        if reference.digest:
            raise ConfigError(f"{reference} has a digest, but a push computes the digest: push to a :TAG")
        described = [layer for layer, _ in layers]
        configs = {host: encode_config(described, host) for host in hosts}
        self._blobs([*((layer.sha256, data) for layer, data in layers), *((digest(c), c) for c in configs.values())])
        manifests: list[Descriptor] = []
        top, kind = b"", MANIFEST_TYPE
        for host, config in configs.items():
            descriptor = Descriptor(kind=CONFIG_TYPE, sha256=digest(config), size=len(config))
            top = encode_manifest(descriptor, described, notes)
            manifests.append(
                Descriptor(kind=MANIFEST_TYPE, sha256=digest(top), size=len(top), architecture=PLATFORMS[host])
            )
            if len(configs) > 1:
                self._manifest(f"sha256:{digest(top)}", top, MANIFEST_TYPE)
        if len(manifests) > 1:
            top, kind = encode_image_index(manifests, notes), INDEX_TYPE
        self._manifest(reference.tag, top, kind)
        return ImageReference(
            host=reference.host,
            name=reference.name,
            tag=reference.tag,
            digest=f"sha256:{digest(top)}",
            plain=reference.plain,
        )

    def _blobs(self, blobs: Sequence[tuple[str, bytes]]) -> None:
        distinct = dict(blobs)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for size, sent in pool.map(lambda item: (len(item[1]), self._blob(*item)), distinct.items()):
                self.sent += size if sent else 0
                self.kept += 0 if sent else size

    def _blob(self, sha256: str, data: bytes) -> bool:
        """Send a blob, and return False if the registry had it already."""

        def once() -> bool:
            registry, url = self._registry, self._registry.blob_url(sha256)
            if registry.request("HEAD", url).status == 200:
                return False
            query = {"mount": f"sha256:{sha256}", "from": self._mount} if self._mount else {}
            uploads = url.partition("/blobs/")[0] + "/blobs/uploads/"
            begun = registry.request("POST", f"{uploads}?{urlencode(query)}" if query else uploads, body=b"")
            if begun.status == 201:  # mounted
                return False
            if begun.status != 202:
                raise registry.refusal(begun, "push to it")
            location = urljoin(uploads, begun.headers.get("location", ""))
            joint = "&" if urlsplit(location).query else "?"
            put = registry.request("PUT", f"{location}{joint}digest=sha256:{sha256}", _BINARY, body=data)
            if put.status != 201:
                raise registry.refusal(put, "push a layer to it")
            return True

        sent = self._web.persist(str(self._registry.reference), once)
        self._advance(len(data))
        return sent

    def _manifest(self, version: str, data: bytes, kind: str) -> None:
        url = self._registry.blob_url("").partition("/blobs/")[0] + f"/manifests/{version}"

        def once() -> None:
            answer = self._registry.request("PUT", url, {"Content-Type": kind}, body=data)
            if answer.status not in (200, 201):
                raise self._registry.refusal(answer, "push a manifest to it")
            stored = answer.headers.get("docker-content-digest", "")
            if stored and stored != f"sha256:{digest(data)}":
                raise FetchError(f"{self._registry.reference}: the registry stored a different manifest: try again")

        self._web.persist(str(self._registry.reference), once)
