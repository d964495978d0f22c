"""Show the size of the store of compiled variants, or remove unused ones.

With --stats: what builds found in it, the seconds of compiling that this saved, and the ops that it saved most for.
Without --prune nothing is removed: --older-than and --keep only show what --prune would remove. Builds may run at
the same time; a variant that was removed is compiled again when a build needs it.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result, size, table
from precast.cli.shared.project import store_folder

if TYPE_CHECKING:
    from precast.build.store.usage_log import Totals

_OPS = 10
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}

EXAMPLES = (
    "precast store",
    "precast store --stats",
    "precast store --prune --older-than 30d --keep 20G",
)


def command(
    stats: Annotated[
        bool, typer.Option("--stats", help="Show hits, misses, and the seconds of compiling that were saved.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what --older-than and --keep select.")] = False,
    older_than: Annotated[
        str,
        typer.Option("--older-than", help="Select what no build has used for this long, such as 30d.", metavar="AGE"),
    ] = "",
    keep: Annotated[
        str,
        typer.Option(
            "--keep", help="Keep this much, such as 20G; select the least recently used rest.", metavar="SIZE"
        ),
    ] = "",
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
    data: dict[str, Any] = {"path": str(opened.path), "records": held.records, "size": held.size}
    if stats:
        from precast.build.store.usage_log import totals

        usage = totals(opened)
        text += f"\n{_stats(usage)}"
        data["stats"] = {
            "builds": usage.builds,
            "ops": {op: of_op.to_json() for op, of_op in sorted(usage.ops.items())},
        }
    change = {"records": selected.records, "size": selected.size}
    print_result({**data, "removed" if prune else "selected": change}, text, as_json)


def _stats(usage: Totals) -> str:
    """The sums of all builds, and a line for each of the ops for which most was saved."""
    if not usage.builds:
        return "no build is in its log yet"
    sums = usage.all
    hits = f"{sums.hits} of {count(sums.hits + sums.misses, 'variant')} found"
    seconds = f"{sums.saved:.1f} s of compiling saved, {sums.spent:.1f} s spent"
    lines = [f"{count(usage.builds, 'build')}: {hits}, {seconds}"]
    ordered = sorted(usage.ops.items(), key=lambda item: (-item[1].saved, -item[1].spent, item[0]))
    rows = [[op, u.hits, u.misses, f"{u.saved:.1f} s", f"{u.spent:.1f} s"] for op, u in ordered[:_OPS]]
    lines += ["", table(["op", "found", "built", "saved", "spent"], rows)]
    if len(ordered) > _OPS:
        lines.append(f"and {count(len(ordered) - _OPS, 'more op')}: --json lists them")
    return "\n".join(lines)


def seconds(text: str) -> int | None:
    """An age in seconds; None for the empty text.

    >>> seconds("30d"), seconds("12h"), seconds("")
    (2592000, 43200, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,9})([mhdw])", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not an age: write it like 30d, 12h, 90m or 2w")
    return int(match[1]) * _SECONDS[match[2]]


def byte_count(text: str) -> int | None:
    """A size in bytes; None for the empty text.

    >>> byte_count("20G"), byte_count("1.5M"), byte_count("")
    (20000000000, 1500000, None)
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([KMGT]?)B?", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size: write it like 20G or 500M")
    return int(float(match[1]) * _BYTES[match[2]])
