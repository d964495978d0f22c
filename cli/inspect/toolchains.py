"""Say which toolchains of manifests are there, remove those that are unused, or print the lock of a manifest's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared.amounts import bytes_of, seconds
from precast.cli.shared.find_links import FindLinks, Offline, toolchains_from
from precast.cli.shared.output import count, emit, size, tell
from precast.cli.shared.pruning import Keep, OlderThan, Prune
from precast.cli.shared.toolchain_text import line_of

if TYPE_CHECKING:
    from precast.build.toolchains.environments import Environment
    from precast.build.toolchains.plans import Toolchains


def command(
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", help="Remove the one whose name begins so; may be repeated.", metavar="NAME"),
    ] = None,
    prune: Prune = False,
    older_than: OlderThan = "",
    keep: Keep = "",
    lock: Annotated[
        Path | None,
        typer.Option("--lock", help="Print the lock of this manifest's toolchain, chosen now.", metavar="MANIFEST"),
    ] = None,
    find_links: FindLinks = None,
    offline: Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say which toolchains of manifests are there, remove those that are unused, or print the lock of a manifest's.

    A toolchain that was removed is made again when a manifest asks for it, of the versions that are newest then. It is
    safe beside running builds: what one uses stays.
    """
    age, most = seconds(older_than), bytes_of(keep)
    if prune and age is None and most is None:
        raise typer.BadParameter("--prune needs --older-than, --keep or both")
    toolchains = toolchains_from(find_links, offline, tell)
    if lock is not None:
        _print_lock(toolchains, lock, as_json)
        return
    made = toolchains.environments()
    named = [_named(made, name) for name in remove or ()]
    selected = [*named, *_unused(made, age, most)]
    gone = [one for one in selected if (one in named or prune) and toolchains.remove(one)]
    kept = [one for one in selected if (one in named or prune) and one not in gone]
    lines = [str(toolchains.root), *(line_of(one) for one in made if one not in gone)]
    lines += [f"removed {line_of(one)}" for one in gone]
    lines += [f"in use, and kept: {line_of(one)}" for one in kept]
    lines += [f"--prune would remove {line_of(one)}" for one in selected if not prune and one not in named]
    rows = {"toolchains": made, "removed": gone, "selected": selected}
    data: dict[str, Any] = {name: [to_json(one) for one in several] for name, several in rows.items()}
    left = sum(one.size for one in made if one not in gone)
    lines.append(f"{count(len(made) - len(gone), 'toolchain')}, {size(left)}")
    emit({"path": str(toolchains.root), **data}, "\n".join(lines), as_json)
    if kept:
        raise typer.Exit(1)


def to_json(one: Environment) -> dict[str, Any]:
    """A toolchain as ``--json`` prints it."""
    return {
        "lock": one.digest,
        "path": str(one.path),
        "python": one.python,
        "locked": one.versions,
        "size": one.size,
        "used": int(one.used),
    }


def _named(made: list[Environment], name: str) -> Environment:
    found = [one for one in made if one.path.name.startswith(name)]
    if len(found) != 1 or not name:
        names = ", ".join(one.path.name[:12] for one in made) or "none"
        raise typer.BadParameter(f"--remove {name}: give the beginning of one name; there are {names}")
    return found[0]


def _unused(made: list[Environment], age: int | None, most: int | None) -> list[Environment]:
    """Those not used for so long, and the longest unused beyond so many bytes."""
    now, left, selected = time.time(), sum(one.size for one in made), []
    for one in reversed(made):
        if (age is not None and now - one.used > age) or (most is not None and left > most):
            selected.append(one)
            left -= one.size
    return selected


def _print_lock(toolchains: Toolchains, path: Path, as_json: bool) -> None:
    from precast.build.plan.manifest import read_manifest

    spec = read_manifest(path).toolchain
    if spec is None:
        raise typer.BadParameter(f"--lock: {path} has no 'toolchain': nothing is to be locked")
    made = toolchains.locked(spec)
    emit({"lock": [[one.name, one.version, list(one.digests)] for one in made.distributions]}, str(made)[:-1], as_json)
