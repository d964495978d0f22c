"""List what a cache holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from precast.cli.shared.output import count, emit, size, table
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.resolve.cache import Cache


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List what a cache holds."""
    opened = Cache(cache)
    rows = [(op, artifact) for op in sorted(opened.index.ops) for artifact in opened.op(op).artifacts]
    data = {"name": opened.name, "artifacts": [as_row(op, artifact) for op, artifact in rows]}
    total = f"{opened.name}: {count(len(rows), 'artifact')} of {count(len(opened.index.ops), 'op')}"
    emit(data, f"{as_table(rows)}\n{total}", as_json)


def as_row(op: str, artifact: Artifact) -> dict[str, Any]:
    """What ``--json`` says of an artifact."""
    row = artifact.to_json()
    names = ("key", "config", "target", "kind", "host", "rank")
    assumes = {"assumes": row["assumes"]} if artifact.assumes else {}
    sizes = {"size": artifact.blob.size, "stored": artifact.blob.stored}
    return {"op": op, **sizes, **{n: row[n] for n in names}, **assumes}


def as_table(rows: list[tuple[str, Artifact]]) -> str:
    """One aligned line for each artifact."""
    return table(
        ("key", "op", "target", "kind", "stored", "config"),
        [(a.key[:12], op, _built_for(a), a.kind, size(a.blob.stored), config_text(a.config)) for op, a in rows],
    )


def _built_for(artifact: Artifact) -> str:
    """The target, and the GPUs, where artifacts of one config may differ by them."""
    from precast.build.cache.build_assumptions import gpus_of

    gpus = ", ".join(gpus_of(artifact)) if artifact.assumes else ""
    return f"{artifact.target} on {gpus}" if gpus else str(artifact.target)
