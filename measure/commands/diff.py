"""List what changed from one cache to another.

Every byte of both is read and checked; with --inputs only the indexes are. Exit status 0 means that they are the
same, byte for byte; 1, that they differ, or that one is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result
from precast.cli.shared.project import store_folder
from precast.loader.terminal_text import on_one_line

UNKNOWN = "its parts are in the store of the machine that built it; --store names a store"

if TYPE_CHECKING:
    from precast.measure.comparison.diff import Difference, InputChange

EXAMPLES = ("precast diff old new",)


def command(
    before: Annotated[Path, typer.Argument(help="The folder of the old cache.", metavar="BEFORE")],
    after: Annotated[Path, typer.Argument(help="The folder of the new cache.", metavar="AFTER")],
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Compare what the artifacts were built from; only the indexes are read.")
    ] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.cache.contents import CacheContents
    from precast.build.store.store import Store
    from precast.measure.comparison.diff import difference, input_changes
    from precast.measure.comparison.key_parts import KeyParts

    if inputs:
        changes = input_changes(CacheContents.open(before), CacheContents.open(after))
        data = [change.to_json() for change in changes]
        print_result(data, "\n".join(map(input_line, changes)) or "built from the same inputs", as_json)
        if changes:
            raise typer.Exit(1)
        return
    parts = KeyParts(Store(store_folder(store)))
    result = difference(CacheContents.open(before), CacheContents.open(after), parts)
    print_result(result.to_json(), "\n".join(lines(result)), as_json)
    if not result.same:
        raise typer.Exit(1)


def input_line(change: InputChange) -> str:
    """An input that has changed, with the ops that it is an input of."""
    ops = ", ".join(sorted({artifact.op for artifact in change.artifacts}))
    before, after = (on_one_line(text[:12]) or "nothing" for text in (change.before, change.after))
    return f"~ {on_one_line(change.name)} {before} -> {after}: {count(len(change.artifacts), 'artifact')} of {ops}"


def lines(result: Difference) -> Iterator[str]:
    """The difference as text: one change per line, then the counts."""
    if result.same:
        yield f"the same, byte for byte: {count(result.unchanged, 'artifact')}"
        return
    yield from (f"cache: {on_one_line(change)}" for change in result.cache)
    yield from (f"- {name}" for name in result.removed)
    yield from (f"+ {name}" for name in result.added)
    for name, changes in result.changed.items():
        yield f"~ {name}: {', '.join(map(on_one_line, changes))}"
    if any([change.what for change in changes] == ["key"] for changes in result.changed.values()):
        yield f"where only the key changed: {UNKNOWN}"
    if not (result.cache or result.removed or result.added or result.changed):
        yield "only the compression differs"
    counts = {"added": result.added, "removed": result.removed, "changed": result.changed}
    yield ", ".join([*(f"{len(names)} {what}" for what, names in counts.items()), f"{result.unchanged} unchanged"])
