"""The images of a cache: one for each host processor, all with the same layers, and an index of them if there are
several. They are a function of the cache: who signs a cache knows the digest that its image will have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precast.build.cache.contents import CacheContents
from precast.fetch.distribution.image import (
    CONFIG_TYPE,
    INDEX_DIGEST,
    INDEX_TYPE,
    MANIFEST_TYPE,
    NAME,
    PLATFORMS,
    Descriptor,
    encode_config,
    encode_image_index,
    encode_manifest,
)
from precast.fetch.distribution.layers import Layer
from precast.loader.contract.format.index import digest


@dataclass(frozen=True, slots=True)
class Images:
    """The configs by their digests, and the manifests in the order in which they are pushed: the last names all."""

    configs: Mapping[str, bytes]
    manifests: Sequence[tuple[Descriptor, bytes]]

    @classmethod
    def of(cls, contents: CacheContents, layers: Sequence[tuple[Layer, bytes]]) -> Images:
        """The images of a cache with these layers."""
        notes = {NAME: contents.index.name, INDEX_DIGEST: f"sha256:{contents.cache.digest}"}
        described = [layer for layer, _ in layers]
        hosts = contents.hosts or tuple(PLATFORMS)
        configs, manifests = {}, []
        for host in hosts:
            config = encode_config(described, host)
            configs[digest(config)] = config
            descriptor = Descriptor(kind=CONFIG_TYPE, sha256=digest(config), size=len(config))
            manifest = encode_manifest(descriptor, described, notes)
            manifests.append((_described(manifest, MANIFEST_TYPE, PLATFORMS[host]), manifest))
        if len(manifests) > 1:
            index = encode_image_index([descriptor for descriptor, _ in manifests], notes)
            manifests.append((_described(index, INDEX_TYPE), index))
        return cls(configs, manifests)

    @property
    def top(self) -> Descriptor:
        """What a tag refers to."""
        last, _ = self.manifests[-1]
        return Descriptor(kind=last.kind, sha256=last.sha256, size=last.size)


def _described(data: bytes, kind: str, architecture: str = "") -> Descriptor:
    return Descriptor(kind=kind, sha256=digest(data), size=len(data), architecture=architecture)
