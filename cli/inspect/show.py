"""Show one artifact of a cache, or every artifact of an op, in full.

With --inputs: what it was built from. A cache has the digests of the files that its author can edit; the store of
the build, if it is on this machine, has the digests of installed packages too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared import options
from precast.cli.shared.artifacts import Variant, artifacts_named
from precast.cli.shared.output import print_result
from precast.cli.shared.project import store_folder
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.resolve.cache import Cache
from precast.loader.terminal_text import on_one_line

if TYPE_CHECKING:
    from precast.build.store.record import Record

EXAMPLES = (
    "precast show cache 3f2a91c0",
    "precast show cache rmsnorm",
)


def command(
    cache: options.Cache,
    key: Annotated[
        str, typer.Argument(help="The beginning of an artifact's key, or the name of an op.", metavar="KEY")
    ],
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Show what each was built from: files, variables, installed packages.")
    ] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    opened = Cache(cache)
    selected = artifacts_named(opened, key)
    if inputs:
        data = inputs_of(selected, store)
        blocks = ["\n".join([row["op"] + " " + config_text(row["config"]), *_input_lines(row)]) for row in data]
        print_result(data, "\n\n".join(blocks), as_json)
        return
    text = "\n\n".join("\n".join(describe(op, artifact, opened.op(op).doc)) for op, artifact in selected)
    print_result([{"op": op, **artifact.to_json()} for op, artifact in selected], text, as_json)


def inputs_of(variants: list[Variant], store: Path | None) -> list[dict[str, Any]]:
    """What each artifact was built from, as ``precast show --inputs --json`` prints it."""
    from precast.build.cache.freshness import read_by_author
    from precast.build.store.store import Store

    records = Store(store_folder(store))
    rows = []
    for op, artifact in variants:
        record = records.record_of(artifact.key, op, artifact.kind)
        row = {"op": op, **{name: artifact.to_json()[name] for name in ("key", "config", "target", "kind")}}
        row["inputs"] = read_by_author(artifact) if record is None else record.inputs.to_json()
        rows.append(row | ({} if record is None else _only_in_record(record)))
    return rows


def _only_in_record(record: Record) -> dict[str, Any]:
    """What only the record has: inputs from installed packages, facts of the GPU, and inputs that cannot be tracked."""
    gpu = dict(sorted(record.assumed.items()))
    return {"installed": record.installed.to_json(), "gpu": gpu, "closed": record.closed}


def _input_lines(row: dict[str, Any]) -> Iterator[str]:
    """What an artifact was built from, one input per line."""
    for title in ("inputs", "installed", "gpu"):
        for name, answer in row.get(title, {}).items():
            shown = "missing" if answer in (None, "") else answer
            yield f"  {'gpu ' if title == 'gpu' else ''}{on_one_line(name)} = {on_one_line(shown)}"
    if "closed" in row:
        yield f"  closed by: {on_one_line(row['closed'])}"
    if "installed" not in row:
        yield "  The store has no record of it: what it read from installed packages is not known on this machine."


def describe(op: str, artifact: Artifact, doc: str = "") -> list[str]:
    """An artifact in full, one fact per line; ``doc`` is its author's description of the op."""
    return [f"{name + ':':<12}{on_one_line(value)}" for name, value in _facts(op, artifact, doc)]


def _facts(op: str, artifact: Artifact, doc: str) -> Iterator[tuple[str, Any]]:
    blob, host = artifact.blob, artifact.host
    yield "op", op
    if doc:
        yield "summary", doc
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
            "resources",
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
        yield "provenance", f"{len(read)} inputs, see --inputs" if isinstance(read, Mapping) else f"{name}: {value}"
    for entry in artifact.evidence:
        yield "evidence", config_text(entry)
