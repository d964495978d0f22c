"""Packing: makes the files of a cache out of the records of a plan. The same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from precast.build.cache.blob_reuse import BlobReuse
from precast.build.cache.build_assumptions import assumptions_of, record_of
from precast.build.cache.compress import store_all, store_raw, train
from precast.build.cache.freshness import CLOSED, INPUTS
from precast.build.cache.index_writer import cache_files
from precast.build.gpu.profile import Profiles
from precast.build.inputs.inputs import shortened
from precast.build.link.runtime import RuntimeLibrary
from precast.build.link.toolchain import PROGRAMS
from precast.build.measurements.fit import Fitted, Listed, code_digest, fit
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.store.key import artifact_key
from precast.build.store.record import Product, Record
from precast.loader.contract.format.artifact import Artifact, Blob
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import OpIndex, Runtime, digest
from precast.loader.contract.format.several_objects import OBJECTS, first_op
from precast.loader.contract.format.tuning.measured import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class UncompressedOp:
    """An op with artifacts whose blobs are not compressed yet."""

    keys: tuple[Key, ...]
    doc: str
    artifacts: tuple[Artifact, ...]
    tuning: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltArtifact:
    """An artifact of a built variant with its content, and its PTX if that is kept; no blob is compressed yet."""

    op: str
    artifact: Artifact
    content: bytes
    ptx: bytes = b""


@dataclass(frozen=True, slots=True)
class Packed:
    """Every file of a cache by its name, and the plan's measurements of its artifacts."""

    files: dict[str, bytes]
    tuning: Fitted


def pack(
    plan: Plan,
    records: Mapping[str, Record],
    runtime: RuntimeLibrary,
    versions: Mapping[str, str],
    *,
    threads: int,
    reuse: BlobReuse | None = None,
    dictionary: bytes | None = None,
    keep_ptx: bool = False,
) -> Packed:
    """The files of a cache, with the measurements of the plan.

    ``records`` has the record of each variant by its identity on its GPU. ``reuse`` has compressed blobs of the cache
    that is replaced. A ``dictionary`` is trained unless it is given. With ``keep_ptx`` the cache has the PTX, too.
    """
    one_each = {records[v.identity_on_gpu].key: v for v in reversed(plan.variants)}  # several GPUs may share a record
    variants = [v for v in plan.variants if one_each[records[v.identity_on_gpu].key] is v]
    built = [b for v in variants for b in built_artifacts(v, records[v.identity_on_gpu], plan.profiles, keep_ptx)]
    contents = {b.artifact.blob.sha256: b.content for b in built}
    ops = {
        op: UncompressedOp(keys=of.keys, doc=of.doc, artifacts=tuple(b.artifact for b in built if b.op == op))
        for op in dict.fromkeys(b.op for b in built)
        for of in [plan.ops[op] if op in plan.ops else plan.ops[first_op(op)]]
    }
    fitted = fit(
        plan.tuning,
        {op: Listed(of.keys, of.artifacts) for op, of in ops.items()},
        lambda artifact: code_digest(contents[artifact.blob.sha256]),
    )
    tuned = {op: replace(of, tuning=fitted.rows.get(op, ())) for op, of in ops.items()}
    runtimes = [runtime]
    if not any(b.artifact.kind == "object" for b in built):  # device code depends on nothing of this host
        runtimes, versions = [], {tool: text for tool, text in versions.items() if tool not in PROGRAMS}
    texts = {b.artifact.ptx.sha256: b.ptx for b in built if b.artifact.ptx}
    files = pack_ops(
        plan.name, versions, runtimes, tuned, contents,
        threads=threads, texts=texts, reuse=reuse, dictionary=dictionary,
    )  # fmt: skip
    return Packed(files, fitted)


def built_artifacts(
    variant: Variant, record: Record, profiles: Profiles, keep_ptx: bool = False
) -> Iterator[BuiltArtifact]:
    """Every artifact in the record of a variant. ``profiles`` are those of the build."""
    facts = {**variant.assumed, **record.assumed}
    provenance = _provenance(variant, record, record_of(facts, profiles.all_of(variant.target)))
    assumes = assumptions_of(facts, variant.speed_only, variant.target)
    for product in record.products:
        for kind in variant.emit:
            key = artifact_key(record.key, product.op, kind)
            for content in (product.library,) if kind == "object" else product.cubins:
                artifact = _artifact(variant, product, key, kind, content, provenance, assumes)
                ptx = product.ptx if keep_ptx else b""
                if ptx:
                    artifact = replace(artifact, ptx=uncompressed(ptx))
                yield BuiltArtifact(op=product.op, artifact=artifact, content=content, ptx=ptx)


def _provenance(variant: Variant, record: Record, assumed: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest needs to build the variant again, its inputs, and the facts of the GPU that it requested."""
    read = {name: shortened(answer) for name, answer in record.inputs.answers.items()}
    return {
        "function": variant.source,
        "env": dict(sorted(variant.env.items())),
        "registered": variant.registered,
        **({"parts": list(variant.parts)} if variant.parts else {}),
        **({OBJECTS: len(record.products)} if variant.attached and len(record.products) > 1 else {}),
        CLOSED: record.closed,
        **record.provenance,
        **({INPUTS: {"digest": record.inputs.digest, "read": read}} if record.inputs.names else {}),
        **assumed,
    }


def _artifact(
    variant: Variant,
    product: Product,
    key: str,
    kind: str,
    content: bytes,
    provenance: dict[str, Any],
    assumes: Assumptions | None,
) -> Artifact:
    return Artifact(
        key=key,
        config=variant.config,
        target=product.target,
        kind=kind,
        blob=uncompressed(content),
        symbol=product.symbol if kind == "object" else product.resources[0].kernel,
        signature=product.signature,
        host=product.host if kind == "object" else None,
        rank=variant.rank,
        resources=product.resources,
        provenance=provenance,
        assumes=assumes,
        program=product.program if kind == "cubin" else None,
    )


def uncompressed(content: bytes) -> Blob:
    """The blob of content that is not compressed.

    >>> uncompressed(b"abc").encoding, uncompressed(b"abc").stored
    ('raw', 3)
    """
    return Blob(sha256=digest(content), size=len(content), stored=len(content), encoding="raw")


def pack_ops(
    name: str,
    versions: Mapping[str, str],
    runtimes: Iterable[RuntimeLibrary],
    ops: Mapping[str, UncompressedOp],
    contents: Mapping[str, bytes],
    *,
    threads: int,
    texts: Mapping[str, bytes] = MappingProxyType({}),
    reuse: BlobReuse | None = None,
    dictionary: bytes | None = None,
) -> dict[str, bytes]:
    """Compress the contents, each named by its digest, and write the index of them.

    ``texts`` has the PTX, which is compressed alone: the blobs of kernels are the same with and without. Runtime
    libraries are not compressed: every process opens one, and decompressing it takes longer than opening a kernel.
    """
    dictionary = train(contents, reuse) if dictionary is None else dictionary
    stored = store_all(contents, dictionary, threads, reuse)
    stored |= {sha256: text for sha256, text in store_all(texts, None, threads).items() if sha256 not in stored}
    shared = store_raw(dictionary) if dictionary else None
    uncompressed_blobs = [shared] if shared else []
    listed_runtimes = []
    for runtime in runtimes:
        code = store_raw(runtime.code)
        uncompressed_blobs.append(code)
        listed_runtimes.append(Runtime(soname=runtime.soname, host=runtime.host, blob=code.blob))
    listed_ops = {
        op: OpIndex.of(
            op=op,
            keys=of.keys,
            doc=of.doc,
            artifacts=tuple(
                replace(a, blob=stored[a.blob.sha256].blob, ptx=stored[a.ptx.sha256].blob if a.ptx else None)
                for a in of.artifacts
            ),
            tuning=of.tuning,
        )
        for op, of in ops.items()
    }
    return cache_files(
        name=name,
        toolchain=versions,
        runtimes=listed_runtimes,
        ops=listed_ops,
        dictionary=shared.blob if shared else None,
        blobs={s.blob.sha256: s.data for s in (*stored.values(), *uncompressed_blobs)},
    )
