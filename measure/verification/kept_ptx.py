"""The PTX of artifacts: a cache has it if it was built with ``--keep ptx``; the store that it was built from has it."""

from __future__ import annotations

import hashlib

from precast.build.store.store import Store
from precast.loader.contract.format.artifact import Artifact
from precast.loader.errors import PrecastError
from precast.loader.resolve.cache import Cache


class NoPtx(PrecastError):
    """An artifact cannot be emulated, because its PTX was not kept."""

    code = "PCB25"


class KeptPtx:
    """The PTX of a cache's artifacts.

    Parameters
    ----------
    cache
        What has the artifacts, and their PTX if it keeps that.
    store
        Where a build kept it else.
    """

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache, self._store = cache, store

    def text(self, op: str, artifact: Artifact) -> str:
        """The PTX of an artifact; raises NoPtx with what to do where there is none."""
        if artifact.ptx is not None:
            return self._cache.read(artifact.ptx).decode(errors="replace")
        record = self._store.read(self._record(op, artifact))
        product = next((p for p in record.products if p.op == op), None) if record else None
        if product is None or not product.ptx:
            raise NoPtx(
                f"the store {self._store.path} has {artifact.key[:12]} of a build that kept no PTX:"
                " build the cache again with --keep ptx"
            )
        # A store may have another build of the same key, if an input changed that the key does not cover.
        contents = (product.library,) if artifact.kind == "object" else product.cubins
        if artifact.blob.sha256 not in {hashlib.sha256(content).hexdigest() for content in contents}:
            raise NoPtx(
                f"the store {self._store.path} has other code for {artifact.key[:12]} than the cache"
                f" {self._cache.path}: build the cache again with --keep ptx"
            )
        return product.ptx.decode(errors="replace")

    def require(self, op: str, artifact: Artifact) -> None:
        """Raise NoPtx unless the cache has the PTX of an artifact, or the store its record."""
        if artifact.ptx is None:
            self._record(op, artifact)

    def _record(self, op: str, artifact: Artifact) -> str:
        key = self._store.record_key_of(artifact.key, op, artifact.kind)
        if key is None:
            raise NoPtx(
                f"neither {self._cache.path} nor the store {self._store.path} has the PTX of {artifact.key[:12]}:"
                " build the cache with --keep ptx, or name the store that it was built from with --store"
            )
        return key
