"""Packing: the records of a plan become the files of a cache. The same records give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from precast.build.cache.blob_reuse import BlobReuse
from precast.build.cache.compress import store_all, store_raw, train
from precast.build.gpu.profile import Profile
from precast.build.link.runtime import RuntimeLibrary
from precast.build.plan.plan import Plan, Variant
from precast.build.store.key import artifact_key
from precast.build.store.record import Product, Record
from precast.loader.format.artifact import Artifact, Blob
from precast.loader.format.config import Key
from precast.loader.format.index import Index, OpEntry, OpIndex, Runtime, digest
from precast.loader.format.tuning import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """An op before its artifacts' bytes are compressed: their blobs still stand for plain content."""

    keys: tuple[Key, ...]
    doc: str
    artifacts: tuple[Artifact, ...]
    tuning: tuple[Measured, ...] = ()


def _provenance(variant: Variant, record: Record, profile: Profile) -> dict[str, Any]:
    """What a manifest would have to say to build the variant again, and what was assumed of the GPU meanwhile."""
    return {
        "function": variant.source,
        "env": dict(sorted(variant.env.items())),
        "registered": variant.registered,
        **({"parts": list(variant.parts)} if variant.parts else {}),
        **({"assumed": dict(record.assumed), "profile": str(profile)} if record.assumed else {}),
    }


def pack(
    plan: Plan,
    records: Mapping[str, Record],
    runtime: RuntimeLibrary,
    versions: Mapping[str, str],
    *,
    threads: int,
    earlier: BlobReuse | None = None,
) -> dict[str, bytes]:
    """Every file of the cache by its name. ``records`` holds the record of each variant by its identity.

    What an ``earlier`` cache has compressed already is taken from there.
    """
    drafts = [draft for v in plan.variants for draft in drafts_of(v, records[v.identity], plan.profiles.of(v.target))]
    return seal(
        plan.name,
        versions,
        [runtime],
        {
            op: Listing(keys=of.keys, doc=of.doc, artifacts=artifacts)
            for op, of in plan.ops.items()
            if (artifacts := tuple(artifact for filed, artifact, _ in drafts if filed == op))
        },
        {artifact.blob.sha256: content for _, artifact, content in drafts},
        threads=threads,
        earlier=earlier,
    )


def drafts_of(variant: Variant, record: Record, profile: Profile) -> Iterator[tuple[str, Artifact, bytes]]:
    """Every artifact of a variant that was built: its op, itself with its content as a plain blob, and the content."""
    provenance = _provenance(variant, record, profile)
    for product in record.products:
        for kind in variant.emit:
            key = artifact_key(record.key, product.op, kind)
            for content in (product.library,) if kind == "object" else product.cubins:
                yield product.op, _artifact(variant, product, key, kind, content, provenance), content


def _artifact(
    variant: Variant, product: Product, key: str, kind: str, content: bytes, provenance: dict[str, Any]
) -> Artifact:
    return Artifact(
        key=key,
        config=variant.config,
        target=product.target,
        kind=kind,
        blob=plain(content),
        symbol=product.symbol if kind == "object" else product.resources[0].kernel,
        signature=product.signature,
        host=product.host if kind == "object" else None,
        rank=variant.rank,
        resources=product.resources,
        provenance=provenance,
        plan=product.plan if kind == "cubin" else None,
    )


def plain(content: bytes) -> Blob:
    """The blob of content that is not compressed yet."""
    return Blob(sha256=digest(content), size=len(content), stored=len(content), encoding="raw")


def seal(
    name: str,
    versions: Mapping[str, str],
    runtimes: Sequence[RuntimeLibrary],
    ops: Mapping[str, Listing],
    contents: Mapping[str, bytes],
    *,
    threads: int,
    earlier: BlobReuse | None = None,
) -> dict[str, bytes]:
    """Compress the contents, each named by its digest, and write the index over them.

    What a host's runtime consists of is kept as it is: every process opens it, and to decompress it takes longer than
    to open a kernel.
    """
    dictionary = train(contents, earlier)
    blobs = store_all(contents, dictionary, threads, earlier)
    libraries = [(r, store_raw(r.code), store_raw(r.fastcall) if r.fastcall else None) for r in runtimes]
    shared = store_raw(dictionary) if dictionary else None
    files = {}
    for op, listing in sorted(ops.items()):
        artifacts = tuple(replace(a, blob=blobs[a.blob.sha256].blob) for a in listing.artifacts)
        files[op] = OpIndex.of(
            op=op, keys=listing.keys, doc=listing.doc, artifacts=artifacts, tuning=listing.tuning
        ).encode()
    index = Index(
        name=name,
        toolchain=dict(versions),
        runtimes=tuple(
            Runtime(soname=r.soname, host=r.host, blob=code.blob, fastcall=fastcall.blob if fastcall else None)
            for r, code, fastcall in libraries
        ),
        ops={
            op: OpEntry(sha256=digest(data), size=len(data), artifacts=len(ops[op].artifacts))
            for op, data in files.items()
        },
        dictionary=shared.blob if shared else None,
    )
    native = [stored for _, *both in libraries for stored in both if stored]
    stored = [*blobs.values(), *native, *([shared] if shared else [])]
    return {
        "index.json": index.encode(),
        **{f"ops/{op}.json": data for op, data in files.items()},
        **{f"blobs/{s.blob.sha256}": s.data for s in stored},
    }
