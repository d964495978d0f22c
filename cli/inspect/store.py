"""Say what the store of built variants holds, and remove what has not been used for long."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.amounts import bytes_of, seconds
from precast.cli.shared.output import count, emit, size
from precast.cli.shared.pruning import Keep, OlderThan, Prune


def command(
    prune: Prune = False,
    older_than: OlderThan = "",
    keep: Keep = "",
    store: Annotated[Path | None, typer.Option(help="Where built variants are kept.", envvar="PRECAST_STORE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say what the store of built variants holds, and remove what has not been used for long.

    Nothing is removed without --prune: then --older-than and --keep only say what would be. It is safe beside running
    builds; a variant that was removed is compiled again when a build needs it.
    """
    from precast.build.store.prune import StoreUsage, select_unused, stored_files
    from precast.build.store.prune import prune as remove
    from precast.build.store.store import Store, default_store

    age, most = seconds(older_than), bytes_of(keep)
    if prune and age is None and most is None:
        raise typer.BadParameter("--prune needs --older-than, --keep or both")
    opened = Store(store or default_store())
    if prune:
        selected = remove(opened, older_than=age, keep=most)
        files = stored_files(opened)
    else:
        files = stored_files(opened)
        chosen = select_unused(files, time.time(), older_than=age, keep=most) if older_than or keep else []
        selected = StoreUsage.of(chosen)
    held = StoreUsage.of(files)
    text = f"{opened.path}: {count(held.records, 'record')}, {size(held.size)}"
    if prune or older_than or keep:
        done = "removed" if prune else "--prune would remove"
        text += f"\n{done} {count(selected.records, 'record')}, {size(selected.size)}"
    data = {"path": str(opened.path), "records": held.records, "size": held.size}
    change = {"records": selected.records, "size": selected.size}
    emit({**data, "removed" if prune else "selected": change}, text, as_json)
