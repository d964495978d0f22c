"""List the artifacts of a cache.

Without CACHE: of the cache that precast.toml names, or, where there is no such file, of all installed caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from precast.cli.shared import options
from precast.cli.shared.artifacts import Variant, artifacts_named, artifacts_where
from precast.cli.shared.output import count, print_result, size, table
from precast.cli.shared.project import built_cache, project_here
from precast.loader.command_line.listing import NO_CACHES, artifact_table, listed
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.resolve.cache import Cache

HEAD = ("key", "op", "target", "kind", "stored", "config")
LISTED = ("key", "op", "target", "kind", "cache", "config")

EXAMPLES = (
    "precast list cache",
    "precast list cache --op scale --where dtype=bf16",
    "precast list",
)


def command(
    cache: Annotated[
        Path | None,
        typer.Argument(
            help="The folder of the cache; if left out, precast.toml names it, or all installed caches are listed.",
            metavar="CACHE",
        ),
    ] = None,
    op: Annotated[str, typer.Option(help="Only this op.", metavar="OP")] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only artifacts with this value in their config; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    installed: Annotated[
        bool, typer.Option("--installed", help="List all installed caches, also where precast.toml names one.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    if cache is not None and installed:
        raise typer.BadParameter("--installed lists all installed caches: leave out CACHE")
    project = project_here() if cache is None and not installed else None
    if project is not None:
        cache = built_cache(project)
    if cache is None:
        _list_installed(op, where or (), as_json)
        return
    opened = Cache(cache)
    variants = (
        artifacts_named(opened, op)
        if op
        else [(o, a) for o in sorted(opened.index.ops) for a in opened.op(o).artifacts]
    )
    rows = artifacts_where(opened, variants, where or ())
    data = {"name": opened.name, "artifacts": [to_json(op, artifact) for op, artifact in rows]}
    total = f"{opened.name}: {count(len(rows), 'artifact')} of {count(len({op for op, _ in rows}), 'op')}"
    print_result(data, f"{as_table(rows)}\n{total}", as_json, [HEAD])


def _list_installed(op: str, where: Sequence[str], as_json: bool) -> None:
    from precast import loader

    rows = listed(loader.caches(), op, where)
    print_result([row.to_json() for row in rows], artifact_table(rows) if rows else NO_CACHES, as_json, [LISTED])


def to_json(op: str, artifact: Artifact) -> dict[str, Any]:
    """An artifact as ``--json`` prints it."""
    row = artifact.to_json()
    names = ("key", "config", "target", "kind", "host", "rank")
    assumes = {"assumes": row["assumes"]} if artifact.assumes else {}
    sizes = {"size": artifact.blob.size, "stored": artifact.blob.stored}
    return {"op": op, **sizes, **{n: row[n] for n in names}, **assumes}


def as_table(rows: list[Variant]) -> str:
    """One aligned line for each artifact."""
    return table(
        HEAD,
        [(a.key[:12], op, _target_text(a), a.kind, size(a.blob.stored), config_text(a.config)) for op, a in rows],
    )


def _target_text(artifact: Artifact) -> str:
    """The target, with the GPUs if artifacts of one config can differ by them."""
    from precast.build.cache.build_assumptions import gpus_of

    gpus = ", ".join(gpus_of(artifact)) if artifact.assumes else ""
    return f"{artifact.target} on {gpus}" if gpus else str(artifact.target)
