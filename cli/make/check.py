"""Hold manifests against a cache: is every variant there?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit


def command(
    paths: Annotated[list[Path], typer.Argument(help="The manifests, then the cache.", metavar="MANIFEST... CACHE")],
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="Check this target alone; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Hold manifests against a cache: is every variant there?

    Exit status 1 means that some are missing, and lists them.
    """
    from precast.build.cache.coverage import coverage
    from precast.build.plan.planner import plan_files

    if len(paths) < 2:
        raise typer.BadParameter("name at least one manifest, and the cache last")
    *manifests, cache = paths
    found = coverage(plan_files(manifests, targets=target or ()), cache)
    lines = [f"missing: {m.variant} ({m.kind}), asked for at {m.variant.location}" for m in found.missing]
    lines += [f"extra: {artifact}" for artifact in found.extra]
    lines.append(f"{found.present} of {count(found.present + len(found.missing), 'artifact')} there")
    if found.missing:
        names = " ".join(map(str, manifests))
        lines.append(f"build the missing ones: precast build {names} -o {cache}")
    emit(found.to_json(), "\n".join(lines), as_json)
    if found.missing:
        raise typer.Exit(1)
