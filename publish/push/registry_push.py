"""A push to a registry: first the blobs that it lacks, then the manifest that names them, then the tag.

A reader never sees an incomplete push: the registry moves the tag last, in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urljoin, urlsplit

from precast.fetch.distribution.image import (
    EMPTY,
    INDEX_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    encode_referrer,
    with_referrer,
)
from precast.fetch.distribution.layers import Layer
from precast.fetch.distribution.reference import ImageReference
from precast.fetch.transport.registry import Registry
from precast.fetch.transport.web import Web
from precast.fetch.trust.bundle import BUNDLE_TYPE
from precast.fetch.trust.statement import PREDICATE_TYPE
from precast.loader.contract.format.index import digest
from precast.loader.errors import ConfigError, FetchError
from precast.publish.push.images import Images

_AT_ONCE = 4
# As cosign writes them: it finds a signature by its type and these.
_NOTES = {"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": PREDICATE_TYPE}
_BINARY = {"Content-Type": "application/octet-stream"}
Advance = Callable[[int], None]


class RegistryPush:
    """A push to one repository. ``mount`` names another repository of the registry that may have some of the blobs."""

    def __init__(self, web: Web, registry: Registry, mount: str = "", advance: Advance = lambda number: None) -> None:
        self._web, self._registry, self._mount, self._advance = web, registry, mount, advance
        self.sent = self.kept = 0

    def images(
        self, layers: Sequence[tuple[Layer, bytes]], images: Images, signature: bytes | None = None
    ) -> ImageReference:
        """Push the images of a cache, and its signature, and return a reference with the digest of all.

        The signature comes before the tag: who fetches by the tag finds it.
        """
        reference = self._registry.reference
        if reference.digest:
            raise ConfigError(f"{reference} has a digest, but a push computes the digest: push to a :TAG")
        self._blobs([*((layer.sha256, data) for layer, data in layers), *images.configs.items()])
        for descriptor, manifest in images.manifests[:-1]:
            self._manifest(f"sha256:{descriptor.sha256}", manifest, descriptor.kind)
        top, (_, manifest) = images.top, images.manifests[-1]
        if signature is not None:
            self._manifest(f"sha256:{top.sha256}", manifest, top.kind)
            self._sign(top, signature)
        self._manifest(reference.tag, manifest, top.kind)
        return ImageReference(
            host=reference.host,
            name=reference.name,
            tag=reference.tag,
            digest=f"sha256:{top.sha256}",
            plain=reference.plain,
        )

    def _sign(self, image: Descriptor, bundle: bytes) -> None:
        """Push a signature as a referrer of an image, and list it if the registry does not."""
        content = Descriptor(kind=BUNDLE_TYPE, sha256=digest(bundle), size=len(bundle))
        data = encode_referrer(image, content, _NOTES)
        self._blobs([(digest(EMPTY), EMPTY), (content.sha256, bundle)])
        if not self._manifest(f"sha256:{digest(data)}", data, MANIFEST_TYPE).get("oci-subject"):
            referrer = Descriptor(kind=MANIFEST_TYPE, sha256=digest(data), size=len(data))
            listed = with_referrer(self._registry.referrers(f"sha256:{image.sha256}"), referrer, BUNDLE_TYPE)
            self._manifest(f"sha256-{image.sha256}", listed, INDEX_TYPE)

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

    def _manifest(self, version: str, data: bytes, kind: str) -> Mapping[str, str]:
        """Push a manifest, and return the headers of the answer."""
        url = self._registry.blob_url("").partition("/blobs/")[0] + f"/manifests/{version}"

        def once() -> Mapping[str, str]:
            answer = self._registry.request("PUT", url, {"Content-Type": kind}, body=data)
            if answer.status not in (200, 201):
                raise self._registry.refusal(answer, "push a manifest to it")
            stored = answer.headers.get("docker-content-digest", "")
            if stored and stored != f"sha256:{digest(data)}":
                raise FetchError(f"{self._registry.reference}: the registry stored a different manifest: try again")
            return answer.headers

        return self._web.persist(str(self._registry.reference), once)
