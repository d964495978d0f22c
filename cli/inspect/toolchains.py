"""List the toolchains of manifests, remove unused ones, or print the lock of one.

A toolchain that was removed is created again when a build needs it, from the newest versions that its manifest
allows. Builds may run at the same time: a toolchain in use is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared import options
from precast.cli.shared.manifest_options import toolchains_of
from precast.cli.shared.output import count, print_message, print_result, size
from precast.cli.shared.toolchain_text import line_of
from precast.cli.shared.values import byte_count, seconds

if TYPE_CHECKING:
    from precast.build.toolchains.environments import Environment
    from precast.build.toolchains.plans import Toolchains


def command(
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", help="Remove the one whose name starts with this; may be repeated.", metavar="NAME"),
    ] = None,
    prune: options.Prune = False,
    older_than: options.OlderThan = "",
    keep: options.Keep = "",
    lock: Annotated[
        Path | None,
        typer.Option("--lock", help="Resolve this manifest's toolchain, and print its lock.", metavar="MANIFEST"),
    ] = None,
    find_links: options.FindLinks = None,
    offline: options.Offline = False,
    as_json: options.Json = False,
) -> None:
    age, most = seconds(older_than), byte_count(keep)
    if prune and age is None and most is None:
        raise typer.BadParameter("--prune needs --older-than, --keep or both")
    toolchains = toolchains_of(find_links, offline, print_message)
    if lock is not None:
        _print_lock(toolchains, lock, as_json)
        return
    installed = toolchains.environments()
    named = [_named(installed, name) for name in remove or ()]
    selected = [*named, *_unused(installed, age, most)]
    to_remove = [toolchain for toolchain in selected if prune or toolchain in named]
    removed = [toolchain for toolchain in to_remove if toolchains.remove(toolchain)]
    in_use = [toolchain for toolchain in to_remove if toolchain not in removed]
    remaining = [toolchain for toolchain in installed if toolchain not in removed]
    lines = [str(toolchains.root), *map(line_of, remaining)]
    lines += [f"removed {line_of(toolchain)}" for toolchain in removed]
    lines += [f"kept, because it is in use: {line_of(toolchain)}" for toolchain in in_use]
    lines += [f"--prune would remove {line_of(toolchain)}" for toolchain in selected if toolchain not in to_remove]
    lines.append(f"{count(len(remaining), 'toolchain')}, {size(sum(toolchain.size for toolchain in remaining))}")
    rows = {"toolchains": installed, "removed": removed, "selected": selected}
    data: dict[str, Any] = {name: [to_json(row) for row in several] for name, several in rows.items()}
    print_result({"path": str(toolchains.root), **data}, "\n".join(lines), as_json)
    if in_use:
        raise typer.Exit(1)


def to_json(toolchain: Environment) -> dict[str, Any]:
    """A toolchain as ``--json`` prints it."""
    return {
        "lock": toolchain.digest,
        "path": str(toolchain.path),
        "python": toolchain.python,
        "locked": toolchain.versions,
        "size": toolchain.size,
        "used": int(toolchain.used),
    }


def _named(installed: Sequence[Environment], name: str) -> Environment:
    matches = [toolchain for toolchain in installed if toolchain.path.name.startswith(name)]
    if len(matches) != 1 or not name:
        names = ", ".join(toolchain.path.name[:12] for toolchain in installed) or "none"
        raise typer.BadParameter(f"--remove {name}: give the beginning of one name; there are {names}")
    return matches[0]


def _unused(installed: Sequence[Environment], age: int | None, most: int | None) -> list[Environment]:
    """Those not used for so many seconds, and the least recently used beyond so many bytes."""
    now, left, selected = time.time(), sum(toolchain.size for toolchain in installed), []
    for toolchain in reversed(installed):
        if (age is not None and now - toolchain.used > age) or (most is not None and left > most):
            selected.append(toolchain)
            left -= toolchain.size
    return selected


def _print_lock(toolchains: Toolchains, path: Path, as_json: bool) -> None:
    from precast.build.plan.manifest import read_manifest

    spec = read_manifest(path).toolchain
    if spec is None:
        raise typer.BadParameter(f"--lock: {path} has no 'toolchain': nothing is to be locked")
    lock = toolchains.locked(spec)
    print_result({"lock": [[d.name, d.version, list(d.digests)] for d in lock.distributions]}, str(lock)[:-1], as_json)
