"""A cache as an OCI image: its manifest and config. They are those of a container image, so that a container runtime
can mount it or copy from it; the config also has the table of layers, under its own name.

Everything is a function of the cache: the same cache has the same digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.fetch.distribution.layers import MOST_LAYERS, TABLE_LIMIT, Layer, layers_to_json, parse_layers
from precast.loader.contract.format import fields
from precast.loader.contract.format.index import digest, encode
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_LIMIT = 4 << 20  # what registries themselves take
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
TABLE = "precast.layers"
INDEX_DIGEST = "precast.index"
NAME = "org.opencontainers.image.title"
PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64"}
EMPTY = b"{}"
"""The config of a manifest that is not of an image."""
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
_MOST_REFERRERS = 1000


class Descriptor(Immutable, kw_only=True):
    """The entry of a manifest for a blob or another manifest."""

    kind: str
    sha256: str
    size: int
    architecture: str = ""

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"mediaType": self.kind, "digest": f"sha256:{self.sha256}", "size": self.size}
        return {**data, "platform": {"architecture": self.architecture, "os": "linux"}} if self.architecture else data

    @classmethod
    def parse(cls, value: object) -> Descriptor:
        """Read a descriptor; it may have further fields."""
        data = fields.as_object(value)
        named = fields.get(data, "digest", str)
        if len(named) != 71 or named[:7] != "sha256:" or named[7:].strip("0123456789abcdef"):
            raise FormatError(f"{named[:80]!r} is not a SHA-256 digest", "digest")
        platform = data.get("platform")
        architecture = platform.get("architecture") if isinstance(platform, dict) else ""
        return cls(
            kind=fields.get(data, "mediaType", str),
            sha256=named[7:],
            size=fields.count(data, "size", most=1 << 40),
            architecture=architecture if isinstance(architecture, str) else "",
        )


def encode_config(layers: Sequence[Layer], host: str) -> bytes:
    """The config of the image for a host processor."""
    return encode(
        {
            "architecture": PLATFORMS[host],
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.sha256}" for layer in layers]},
            TABLE: layers_to_json(layers),
        }
    )


def encode_manifest(config: Descriptor, layers: Sequence[Layer], notes: Mapping[str, str]) -> bytes:
    """The manifest of an image."""
    described = [Descriptor(kind=LAYER_TYPE, sha256=item.sha256, size=item.size) for item in layers]
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config.to_json(),
            "layers": [item.to_json() for item in described],
            "annotations": dict(notes),
        }
    )


def encode_image_index(manifests: Sequence[Descriptor], notes: Mapping[str, str]) -> bytes:
    """The index of images for several host processors. All of them have the same layers."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": INDEX_TYPE,
            "manifests": [item.to_json() for item in manifests],
            "annotations": dict(notes),
        }
    )


def encode_referrer(subject: Descriptor, content: Descriptor, notes: Mapping[str, str]) -> bytes:
    """The manifest of a file that belongs to an image, such as its signature."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": content.kind,
            "config": Descriptor(kind=_EMPTY_TYPE, sha256=digest(EMPTY), size=len(EMPTY)).to_json(),
            "layers": [content.to_json()],
            "subject": subject.to_json(),
            "annotations": dict(notes),
        }
    )


def with_referrer(index: bytes | None, referrer: Descriptor, kind: str) -> bytes:
    """The list of an image's referrers with one more, for registries that do not keep it themselves."""
    new = {**referrer.to_json(), "artifactType": kind}
    others = [item for item in _listed(index) if item.get("digest") != new["digest"]] if index else []
    return encode({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [*others, new]})


def read_referrers(index: bytes, kind: str) -> tuple[Descriptor, ...]:
    """Those of an image's referrers that are of a kind."""
    return tuple(Descriptor.parse(item) for item in _listed(index) if item.get("artifactType") == kind)


def read_referrer(data: bytes, kind: str) -> Descriptor:
    """The file of a kind that a referrer is."""
    layers = fields.items(_root(data), "layers", Descriptor.parse, most=MOST_LAYERS)
    if len(layers) != 1 or layers[0].kind != kind:
        raise FormatError(f"it is not one file of the type {kind}", "layers")
    return layers[0]


def _listed(index: bytes) -> tuple[fields.Object, ...]:
    return fields.items(_root(index), "manifests", fields.as_object, most=_MOST_REFERRERS)


def read_manifest(data: bytes, host: str) -> Descriptor:
    """What a manifest refers to: an image to its config, an index to the manifest for a host, or else to its first."""
    root = _root(data)
    if root.get("mediaType") == INDEX_TYPE or "manifests" in root:
        descriptors = fields.items(root, "manifests", Descriptor.parse, most=100)
        fitting = [item for item in descriptors if item.kind == MANIFEST_TYPE]
        mine = [item for item in fitting if item.architecture == PLATFORMS.get(host)]
        if not fitting:
            raise FormatError("the index has no image", "manifests")
        return (mine or fitting)[0]
    return fields.parsed(root, "config", Descriptor.parse)


def read_layers(manifest: bytes, config: bytes) -> tuple[Layer, ...]:
    """The layers of an image, which its config and its manifest must both name."""
    table = fields.as_object(fields.read_json(config, limit=TABLE_LIMIT)).get(TABLE)
    if table is None:
        raise FormatError("it is not an image of a cache, without a table of layers: push caches with 'precast push'")
    layers = fields.parsed({TABLE: table}, TABLE, parse_layers)
    named = fields.items(_root(manifest), "layers", Descriptor.parse, most=MOST_LAYERS)
    if [(item.sha256, item.size) for item in named] != [(item.sha256, item.size) for item in layers]:
        raise FormatError("its manifest and its config name different layers")
    return layers


def _root(data: bytes) -> fields.Object:
    root = fields.as_object(fields.read_json(data, limit=MANIFEST_LIMIT))
    if root.get("schemaVersion") != 2:
        raise FormatError("not an OCI manifest: its schema version is not 2", "schemaVersion")
    return root
