"""Packing: the records of a plan become the files of a cache. The same records give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from precast.build.compress import Stored, store_all, store_plain, store_raw, train
from precast.build.earlier import Earlier
from precast.build.key import artifact_key
from precast.build.plan import Plan, Variant
from precast.build.profile import Profile
from precast.build.record import Product, Record
from precast.build.runtime import RuntimeLibrary
from precast.loader.artifact import Artifact, Blob
from precast.loader.index import Index, OpEntry, OpIndex, Runtime, digest


@dataclass(frozen=True, slots=True)
class _Draft:
    """An artifact that waits for its blob."""

    op: str
    variant: Variant
    key: str
    kind: str
    product: Product
    content: bytes
    provenance: dict[str, Any]

    def finish(self, blob: Blob) -> Artifact:
        product, variant = self.product, self.variant
        return Artifact(
            key=self.key,
            config=variant.config,
            target=product.target,
            kind=self.kind,
            blob=blob,
            symbol=product.symbol if self.kind == "object" else product.resources[0].kernel,
            signature=product.signature,
            host=product.host if self.kind == "object" else None,
            rank=variant.rank,
            resources=product.resources,
            provenance=self.provenance,
        )


def pack(
    plan: Plan,
    records: Mapping[str, Record],
    runtime: RuntimeLibrary,
    versions: Mapping[str, str],
    *,
    threads: int,
    earlier: Earlier | None = None,
) -> dict[str, bytes]:
    """Every file of the cache by its name. ``records`` holds the record of each variant by its identity.

    The runtime library is compressed by itself, so that it is the same blob in every cache that one toolchain makes.
    What an ``earlier`` cache has compressed already is taken from there.
    """
    drafts = [d for v in plan.variants for d in _drafts(v, records[v.identity], plan.profiles.of(v.target))]
    contents = {digest(d.content): d.content for d in drafts}
    dictionary = train(contents, earlier)
    blobs = store_all(contents, dictionary, threads, earlier)
    library = store_plain(runtime.code, earlier)
    shared = store_raw(dictionary) if dictionary else None
    ops = _op_files(plan, drafts, blobs)
    index = Index(
        name=plan.name,
        toolchain=dict(versions),
        runtimes=(Runtime(soname=runtime.soname, host=runtime.host, blob=library.blob),),
        ops={
            op: OpEntry(sha256=digest(data), size=len(data), artifacts=sum(d.op == op for d in drafts))
            for op, data in ops.items()
        },
        dictionary=shared.blob if shared else None,
    )
    stored = [*blobs.values(), library, *([shared] if shared else [])]
    return {
        "index.json": index.encode(),
        **{f"ops/{op}.json": data for op, data in sorted(ops.items())},
        **{f"blobs/{s.blob.sha256}": s.data for s in stored},
    }


def _drafts(variant: Variant, record: Record, profile: Profile) -> Iterator[_Draft]:
    provenance: dict[str, Any] = {"function": variant.source, "env": dict(sorted(variant.env.items()))}
    if record.assumed:
        provenance |= {"assumed": dict(record.assumed), "profile": str(profile)}
    for product in record.products:
        for kind in variant.emit:
            contents = (product.library,) if kind == "object" else product.cubins
            for content in contents:
                key = artifact_key(record.key, product.op, kind)
                yield _Draft(product.op, variant, key, kind, product, content, provenance)


def _op_files(plan: Plan, drafts: list[_Draft], blobs: Mapping[str, Stored]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for op in sorted({d.op for d in drafts}):
        mine = [d for d in drafts if d.op == op]
        of = plan.ops[op]
        artifacts = tuple(d.finish(blobs[digest(d.content)].blob) for d in mine)
        files[op] = OpIndex.of(op=op, keys=of.keys, doc=of.doc, artifacts=artifacts).encode()
    return files
