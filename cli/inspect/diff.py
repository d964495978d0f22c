"""Say what changed from one cache to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.output import count, emit

if TYPE_CHECKING:
    from precast.build.cache.diff import Difference, InputChange


def command(
    before: Annotated[Path, typer.Argument(help="The folder of a cache.", metavar="BEFORE")],
    after: Annotated[Path, typer.Argument(help="The folder of another.", metavar="AFTER")],
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Compare what the artifacts were made of, by what the indexes say.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the difference as JSON.")] = False,
) -> None:
    """Say what changed from one cache to another.

    Every byte of both is read and checked; with --inputs only the indexes are. Exit status 0 means that they are the
    same, byte for byte; 1, that they differ, or that one is damaged.
    """
    from precast.build.cache.contents import CacheContents
    from precast.build.cache.diff import difference, input_changes

    if inputs:
        changes = input_changes(CacheContents.open(before), CacheContents.open(after))
        data = [change.to_json() for change in changes]
        emit(data, "\n".join(map(input_line, changes)) or "made of the same inputs", as_json)
        if changes:
            raise typer.Exit(1)
        return
    found = difference(CacheContents.open(before), CacheContents.open(after))
    emit(found.to_json(), "\n".join(lines(found)), as_json)
    if not found.same:
        raise typer.Exit(1)


def input_line(change: InputChange) -> str:
    """An input that has changed, with the functions' ops that read it."""
    ops = ", ".join(sorted({one.op for one in change.artifacts}))
    before, after = (text[:12] or "nothing" for text in (change.before, change.after))
    return f"~ {change.name} {before} -> {after}: {count(len(change.artifacts), 'artifact')} of {ops}"


def lines(found: Difference) -> Iterator[str]:
    """The difference as text, a change a line; the counts at the end."""
    if found.same:
        yield f"the same, byte for byte: {count(found.unchanged, 'artifact')}"
        return
    yield from (f"cache: {change}" for change in found.cache)
    yield from (f"- {name}" for name in found.removed)
    yield from (f"+ {name}" for name in found.added)
    for name, changes in found.changed.items():
        yield f"~ {name}: {', '.join(map(str, changes))}"
    if not (found.cache or found.removed or found.added or found.changed):
        yield "only the compression differs"
    counts = {"added": found.added, "removed": found.removed, "changed": found.changed}
    yield ", ".join([*(f"{len(names)} {what}" for what, names in counts.items()), f"{found.unchanged} unchanged"])
