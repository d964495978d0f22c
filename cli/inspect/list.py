"""List the artifacts of a cache."""

from __future__ import annotations

from typing import Any

from precast.cli.shared import options
from precast.cli.shared.artifacts import Variant
from precast.cli.shared.output import count, print_result, size, table
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.resolve.cache import Cache


def command(cache: options.Cache, as_json: options.Json = False) -> None:
    opened = Cache(cache)
    rows = [(op, artifact) for op in sorted(opened.index.ops) for artifact in opened.op(op).artifacts]
    data = {"name": opened.name, "artifacts": [to_json(op, artifact) for op, artifact in rows]}
    total = f"{opened.name}: {count(len(rows), 'artifact')} of {count(len(opened.index.ops), 'op')}"
    print_result(data, f"{as_table(rows)}\n{total}", as_json)


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
        ("key", "op", "target", "kind", "stored", "config"),
        [(a.key[:12], op, _target_text(a), a.kind, size(a.blob.stored), config_text(a.config)) for op, a in rows],
    )


def _target_text(artifact: Artifact) -> str:
    """The target, with the GPUs if artifacts of one config can differ by them."""
    from precast.build.cache.build_assumptions import gpus_of

    gpus = ", ".join(gpus_of(artifact)) if artifact.assumes else ""
    return f"{artifact.target} on {gpus}" if gpus else str(artifact.target)
