"""Merging: joins caches that were built separately. If two contradict each other, it fails, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from precast.build.cache.build_assumptions import for_gpus, gpus_of
from precast.build.cache.cache_folder import check_output, write_cache
from precast.build.cache.companion_files import disagreement, keeping_companions
from precast.build.cache.contents import ArtifactId, CacheContents
from precast.build.cache.freshness import differently_made
from precast.build.cache.pack import UncompressedOp, pack_ops, uncompressed
from precast.build.errors import MergeError
from precast.build.link.runtime import RuntimeLibrary
from precast.build.link.toolchain import PROGRAMS, by_host, for_all_hosts
from precast.build.measurements.join import joined
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.index import Index, Runtime
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.errors import ConfigError

_SHOWN = 20


def merge_caches(paths: Sequence[Path], output: Path, *, name: str = "", threads: int = 1) -> Index:
    """Merge the caches at some paths into one at ``output``, or raise MergeError with every conflict.

    The shards of one build merge to the same bytes as the build without shards.
    """
    if name and not CACHE_NAME.admits(name):
        raise ConfigError(f"{name!r} is not a name: use lower-case letters, digits and single dashes")
    check_output(output)
    files = merged([CacheContents.open(path) for path in paths], name=name, threads=threads)
    write_cache(output, files)
    return Index.decode(files["index.json"])


def merged(caches: Sequence[CacheContents], *, name: str = "", threads: int = 1) -> Mapping[str, bytes]:
    """The files of the merged cache."""
    problems = conflicts(caches, renamed=bool(name))
    if problems:
        more = [f"... and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise MergeError(
            "\n".join(
                [
                    f"these caches contradict each other in {len(problems)} place{'s' if len(problems) > 1 else ''}:",
                    *(f"  {line}" for line in (*problems[:_SHOWN], *more)),
                    "Build them from the same sources with the same versions, or leave one out.",
                ]
            )
        )
    chosen: dict[ArtifactId, tuple[CacheContents, Artifact]] = {}
    gpus: dict[ArtifactId, list[str]] = {}
    for cache in caches:
        for identity, artifact in cache.artifacts.items():
            gpus.setdefault(identity, []).extend(gpus_of(artifact))
            held = chosen.setdefault(identity, (cache, artifact))
            if artifact.key < held[1].key:  # device code of two hosts: the same, except for its key
                chosen[identity] = (cache, artifact)
    chosen = {n: (cache, for_gpus(artifact, gpus[n])) for n, (cache, artifact) in chosen.items()}
    contents = {a.blob.sha256: cache.read(a.blob) for cache, a in chosen.values()}
    files = pack_ops(
        name or caches[0].index.name,
        for_all_hosts(_toolchains(caches)),
        _runtimes(caches),
        _ops(caches, {n: a for n, (_, a) in chosen.items()}, contents),
        contents,
        threads=threads,
        texts={a.ptx.sha256: cache.read(a.ptx) for cache, a in chosen.values() if a.ptx},
    )
    return keeping_companions(files, caches)


def conflicts(caches: Sequence[CacheContents], *, renamed: bool = False) -> list[str]:
    """A line for each fact in which caches contradict each other. ``renamed`` allows different names."""
    return [
        *([] if renamed else _names(caches)),
        *_of_toolchains(caches),
        *_of_runtimes(caches),
        *_of_ops(caches),
        *_of_artifacts(caches),
        *_of_keys(caches),
        *differently_made(caches),
        *disagreement(caches),
    ]


def _names(caches: Sequence[CacheContents]) -> Iterator[str]:
    first = caches[0]
    for cache in caches[1:]:
        if cache.index.name != first.index.name:
            yield (
                f"{first} has the name {first.index.name!r} and {cache} {cache.index.name!r}: "
                "name the merged cache with --name"
            )


def _of_toolchains(caches: Sequence[CacheContents]) -> Iterator[str]:
    """Each host has one toolchain. Between hosts, programs may differ, but packages may not."""
    seen: dict[tuple[str, str], tuple[str, CacheContents]] = {}
    for cache in caches:
        for tool, versions in _versions(cache).items():
            for host, version in versions.items():
                held, other = seen.setdefault((tool, host), (version, cache))
                if held != version:
                    where = f" for {host}" if host else ""
                    yield f"{tool} is {held} in {other} and {version} in {cache}{where}"


def _versions(cache: CacheContents) -> dict[str, dict[str, str]]:
    """The version of each tool that made a cache, by host; packages are the same for all hosts, under ''."""
    versions: dict[str, dict[str, str]] = {}
    for host, tools in by_host(cache.index).items():
        for tool, version in tools.items():
            versions.setdefault(tool, {})[host if tool in PROGRAMS else ""] = version
    return versions


def _of_runtimes(caches: Sequence[CacheContents]) -> Iterator[str]:
    seen: dict[str, tuple[Runtime, CacheContents]] = {}
    for cache in caches:
        for runtime in cache.index.runtimes:
            held, other = seen.setdefault(runtime.host.arch, (runtime, cache))
            if runtime_facts(held) != runtime_facts(runtime):
                first, second = (f"{r.soname} ({r.blob.sha256[:12]})" for r in (held, runtime))
                yield f"the runtime library for {runtime.host.arch} is {first} in {other} and {second} in {cache}"


def _of_ops(caches: Sequence[CacheContents]) -> Iterator[str]:
    seen: dict[str, CacheContents] = {}
    for cache in caches:
        for op, listed in cache.ops.items():
            other = seen.setdefault(op, cache)
            if other.ops[op].keys != listed.keys:
                mine, theirs = (", ".join(f"{k.name}: {k.type}" for k in c.ops[op].keys) for c in (other, cache))
                if mine == theirs:
                    theirs += ", with other defaults, choices or tuned keys"
                yield f"op {op!r} has the config keys ({mine}) in {other} and ({theirs}) in {cache}"
            elif other.ops[op].doc != listed.doc:
                yield f"op {op!r} has different descriptions in {other} and {cache}"


def _of_artifacts(caches: Sequence[CacheContents]) -> Iterator[str]:
    seen: dict[ArtifactId, CacheContents] = {}
    for cache in caches:
        for name, artifact in cache.artifacts.items():
            other = seen.setdefault(name, cache)
            held = other.artifacts[name]
            different = differing_facts(for_gpus(held, ()), for_gpus(artifact, ()))
            if not name.host and different == ["key"]:
                continue  # the same device code, built on two hosts: the key depends on the host
            if different:
                yield f"{name} differs in {', '.join(different)} between {other} and {cache}"


def _of_keys(caches: Sequence[CacheContents]) -> Iterator[str]:
    seen: dict[tuple[str, str], tuple[ArtifactId, CacheContents]] = {}
    for cache in caches:
        for name, artifact in cache.artifacts.items():
            held, other = seen.setdefault((name.op, artifact.key), (name, cache))
            if held != name and other is not cache:
                yield f"the key {artifact.key[:16]} is that of {held} in {other} and of {name} in {cache}"


def _toolchains(caches: Sequence[CacheContents]) -> dict[str, dict[str, str]]:
    hosts = {host: tools for cache in caches for host, tools in by_host(cache.index).items()}
    device_code = hosts.pop("", {})  # the same packages as those of any host
    return hosts or {"": device_code}


def _runtimes(caches: Sequence[CacheContents]) -> list[RuntimeLibrary]:
    by_architecture = {r.host.arch: (cache, r) for cache in caches for r in cache.index.runtimes}
    return [
        RuntimeLibrary(soname=r.soname, code=cache.read(r.blob), host=r.host)
        for _, (cache, r) in sorted(by_architecture.items())
    ]


def _ops(
    caches: Sequence[CacheContents], artifacts: Mapping[ArtifactId, Artifact], contents: Mapping[str, bytes]
) -> dict[str, UncompressedOp]:
    ops = {}
    for op, listed in {op: listed for cache in caches for op, listed in cache.ops.items()}.items():
        mine = tuple(
            replace(a, blob=uncompressed(contents[a.blob.sha256])) for name, a in artifacts.items() if name.op == op
        )
        tables = [cache.ops[op].tuning for cache in caches if op in cache.ops]
        tuning = joined(tables, {a.key for a in mine})
        ops[op] = UncompressedOp(keys=listed.keys, doc=listed.doc, artifacts=mine, tuning=tuning)
    return ops


def artifact_facts(artifact: Artifact) -> dict[str, Any]:
    """The entry of an artifact in an index, except how its bytes are compressed and its compilation was closed."""
    data = artifact.to_json()
    data["bytes"] = data.pop("blob")["sha256"]
    data["provenance"] = {name: value for name, value in data.get("provenance", {}).items() if name != "closed"}
    return data


def differing_facts(first: Artifact, second: Artifact) -> list[str]:
    """The names of the facts in which two artifacts differ."""
    mine, theirs = artifact_facts(first), artifact_facts(second)
    return [fact for fact in {**mine, **theirs} if mine.get(fact) != theirs.get(fact)]


def runtime_facts(runtime: Runtime) -> tuple[str, ...]:
    """The name of a runtime library, the host that it needs, and its digest."""
    host = runtime.host
    return runtime.soname, host.arch, host.glibc, runtime.blob.sha256
