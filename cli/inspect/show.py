"""Show all that a cache says of one artifact, or of every artifact of an op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared.output import emit
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text, suggest
from precast.loader.errors import PrecastError
from precast.loader.resolve.cache import Cache

if TYPE_CHECKING:
    from precast.build.store.record import Record

_SHORTEST = 4


class NoSuchArtifact(PrecastError, LookupError):
    """The text given is no op and no key of the cache, or the beginning of several keys."""

    code = "PCC01"


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    key: Annotated[
        str, typer.Argument(help="The beginning of an artifact's key, or the name of an op.", metavar="KEY")
    ],
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Show what each was made of: files, variables, installed packages.")
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option(help="Where --inputs looks for the whole record.", envvar="PRECAST_STORE", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the artifacts as JSON.")] = False,
) -> None:
    """Show all that a cache says of one artifact, or of every artifact of an op.

    With --inputs: what it was made of. A cache has the digests of what its author can edit; the store of the build, if
    it is here, has the rest too.
    """
    opened = Cache(cache)
    found = find(opened, key)
    if inputs:
        made = inputs_of(found, store)
        blocks = ["\n".join([one["op"] + " " + config_text(one["config"]), *_input_lines(one)]) for one in made]
        emit(made, "\n\n".join(blocks), as_json)
        return
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
        listed = f"run 'precast list' for the keys, of which {_SHORTEST} characters or more will do"
        known = suggest(key, cache.index.ops, listed)
        raise NoSuchArtifact(f"cache {cache.name!r} has no op and no key {key!r}{known}")
    return found


def inputs_of(found: list[tuple[str, Artifact]], store: Path | None) -> list[dict[str, Any]]:
    """What each artifact was made of, as ``precast show --inputs --json`` prints it."""
    from precast.build.cache.freshness import read_by_author
    from precast.build.store.store import Store, default_store

    records = Store(store or default_store())
    made = []
    for op, artifact in found:
        record = records.record_of(artifact.key, op, artifact.kind)
        one = {"op": op, **{name: artifact.to_json()[name] for name in ("key", "config", "target", "kind")}}
        one["inputs"] = read_by_author(artifact) if record is None else record.inputs.to_json()
        made.append(one | ({} if record is None else _rest(record)))
    return made


def _rest(record: Record) -> dict[str, Any]:
    """What only the record has: what belongs to installed packages, facts of the GPU, and what no key covers."""
    gpu = dict(sorted(record.assumed.items()))
    return {"installed": record.installed.to_json(), "gpu": gpu, "unsteady": list(record.unsteady)}


def _input_lines(made: dict[str, Any]) -> Iterator[str]:
    """What an artifact was made of, an input a line."""
    for title in ("inputs", "installed", "gpu"):
        for name, answer in made.get(title, {}).items():
            shown = "not there" if answer in (None, "") else answer
            yield f"  {'gpu ' if title == 'gpu' else ''}{name} = {shown}"
    yield from (f"  unsteady: {one}" for one in made.get("unsteady", ()))
    if "installed" not in made:
        yield "  The store has no record of it: what it read of installed packages is not known here."


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
        read = value.get("read") if name == "inputs" and isinstance(value, Mapping) else None
        yield "made", f"inputs: {len(read)}, --inputs shows them" if isinstance(read, Mapping) else f"{name}: {value}"
    for entry in artifact.evidence:
        yield "evidence", config_text(entry)
