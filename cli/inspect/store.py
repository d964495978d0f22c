"""Say what the store of built variants holds, and remove what has not been used for long."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit, size

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


def command(
    prune: Annotated[bool, typer.Option("--prune", help="Remove what --older-than and --keep select.")] = False,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Select what no build has used for so long, such as 30d.", metavar="AGE")
    ] = "",
    keep: Annotated[
        str, typer.Option("--keep", help="Select the longest unused beyond so many bytes, such as 20G.", metavar="SIZE")
    ] = "",
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


def seconds(text: str) -> int | None:
    """An age in seconds; None where none is given.

    >>> seconds("30d"), seconds("12h"), seconds("")
    (2592000, 43200, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,9})([mhdw])", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not an age: write it like 30d, 12h, 90m or 2w")
    return int(match[1]) * _SECONDS[match[2]]


def bytes_of(text: str) -> int | None:
    """A size in bytes; None where none is given.

    >>> bytes_of("20G"), bytes_of("1.5M"), bytes_of("")
    (20000000000, 1500000, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)B?", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write it like 20G or 500M")
    return int(float(match[1]) * _BYTES[match[2]])
