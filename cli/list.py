"""``precast list``: what a cache holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from precast.loader.artifact import Artifact
from precast.loader.cache import Cache
from precast.loader.trace import flow


def list_cache(
    cache: Annotated[Path, typer.Argument(help="The directory of a cache.")],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for a machine to read.")] = False,
) -> None:
    """List the artifacts of a cache."""
    opened = Cache(cache)
    rows = [(op, artifact) for op in sorted(opened.index.ops) for artifact in opened.op(op).artifacts]
    if as_json:
        summary = {"name": opened.name, "artifacts": [as_row(op, artifact) for op, artifact in rows]}
        typer.echo(json.dumps(summary, indent=1, sort_keys=True))
        return
    for line in lines(rows):
        typer.echo(line)
    typer.echo(f"{opened.name}: {len(rows)} artifacts of {len(opened.index.ops)} ops")


def as_row(op: str, artifact: Artifact) -> dict[str, Any]:
    """What ``--json`` says of an artifact."""
    row = artifact.to_json()
    names = ("key", "config", "target", "kind", "host", "rank")
    return {"op": op, "size": artifact.blob.size, "stored": artifact.blob.stored, **{n: row[n] for n in names}}


def lines(rows: list[tuple[str, Artifact]]) -> list[str]:
    """One aligned line for each artifact: key, op, target, kind, stored size, config."""
    table = [
        (a.key[:12], op, str(a.target), a.kind, f"{a.blob.stored / 1024:.1f} KB", flow(a.config)) for op, a in rows
    ]
    widths = [max((len(row[column]) for row in table), default=0) for column in range(5)]
    return ["  ".join((*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1])) for row in table]
