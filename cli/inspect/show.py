"""Show all that a cache says of one artifact, or of every artifact of an op."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from precast.cli.shared.output import emit
from precast.loader.errors import PrecastError
from precast.loader.format.artifact import Artifact
from precast.loader.format.config import config_text, suggest
from precast.loader.resolve.cache import Cache

_SHORTEST = 4


class NoSuchArtifact(PrecastError, LookupError):
    """The text given is no op and no key of the cache, or the beginning of several keys."""


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    key: Annotated[
        str, typer.Argument(help="The beginning of an artifact's key, or the name of an op.", metavar="KEY")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the artifacts as JSON.")] = False,
) -> None:
    """Show all that a cache says of one artifact, or of every artifact of an op."""
    opened = Cache(cache)
    found = find(opened, key)
    text = "\n\n".join("\n".join(describe(op, artifact, opened.op(op).doc)) for op, artifact in found)
    emit([{"op": op, **artifact.to_json()} for op, artifact in found], text, as_json)


def find(cache: Cache, key: str) -> list[tuple[str, Artifact]]:
    """The artifacts that ``key`` stands for: all of an op, or the one whose key begins with it."""
    if key in cache.index.ops:
        return [(key, artifact) for artifact in cache.op(key).artifacts]
    every = [(op, artifact) for op in sorted(cache.index.ops) for artifact in cache.op(op).artifacts]
    found = [(op, a) for op, a in every if len(key) >= _SHORTEST and a.key.startswith(key)]
    if len(found) > 1:
        raise NoSuchArtifact(f"{key!r} begins {len(found)} keys: {', '.join(a.key[:16] for _, a in found)}; give more")
    if not found:
        raise NoSuchArtifact(
            f"cache {cache.name!r} has no op and no key {key!r}{suggest(key, cache.index.ops)}"
            f" Run 'precast list' for the keys, of which {_SHORTEST} characters or more will do"
        )
    return found


def describe(op: str, artifact: Artifact, doc: str = "") -> list[str]:
    """An artifact in full, a fact a line; ``doc`` is what its author says of the op."""
    return [f"{name + ':':<12}{value}" for name, value in _facts(op, artifact, doc)]


def _facts(op: str, artifact: Artifact, doc: str) -> Iterator[tuple[str, Any]]:
    blob, host = artifact.blob, artifact.host
    yield "op", op
    if doc:
        yield "about", doc
    yield "key", artifact.key
    yield "config", config_text(artifact.config)
    yield "target", artifact.target
    yield "kind", artifact.kind
    if host is not None:
        yield "host", f"{host.arch}, glibc {host.glibc} or newer"
    yield "symbol", artifact.symbol
    yield "arguments", artifact.signature
    yield "blob", f"{blob.sha256} ({blob.size} bytes, {blob.stored} stored as {blob.encoding})"
    for used in artifact.resources:
        yield (
            "uses",
            (
                f"{used.registers} registers, {used.shared} bytes of shared memory, {used.stack} of stack,"
                f" {used.local} of local memory in {used.kernel}"
            ),
        )
    if artifact.assumes is not None:
        for name, value in sorted(artifact.assumes.needs.items()):
            yield "needs", f"a GPU whose {name} is {value!r}"
        for name, value in sorted(artifact.assumes.speed.items()):
            yield "fastest on", f"a GPU whose {name} is {value!r}"
    for name, value in sorted(artifact.provenance.items()):
        yield "made", f"{name}: {value}"
    for entry in artifact.evidence:
        yield "evidence", config_text(entry)
