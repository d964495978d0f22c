"""Show the size of the store of compiled variants, or remove unused ones.

Without --prune nothing is removed: --older-than and --keep only show what --prune would remove. Builds may run at
the same time; a variant that was removed is compiled again when a build needs it.
"""

from __future__ import annotations

import time

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result, size
from precast.cli.shared.project import store_folder
from precast.cli.shared.values import byte_count, seconds


def command(
    prune: options.Prune = False,
    older_than: options.OlderThan = "",
    keep: options.Keep = "",
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.store.prune import StoreUsage, select_unused, stored_files
    from precast.build.store.prune import prune as remove
    from precast.build.store.store import Store

    age, most = seconds(older_than), byte_count(keep)
    if prune and age is None and most is None:
        raise typer.BadParameter("--prune needs --older-than, --keep or both")
    opened = Store(store_folder(store))
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
        action = "removed" if prune else "--prune would remove"
        text += f"\n{action} {count(selected.records, 'record')}, {size(selected.size)}"
    data = {"path": str(opened.path), "records": held.records, "size": held.size}
    change = {"records": selected.records, "size": selected.size}
    print_result({**data, "removed" if prune else "selected": change}, text, as_json)
