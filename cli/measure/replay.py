"""Make a dumped call again, in a process of its own, and compare what it writes with its reference.

A service that runs with PRECAST_DUMP=DIR writes each call there before it launches it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared.output import emit

if TYPE_CHECKING:
    from precast.loader.contract.diagnostics.dump import Dump


def command(
    call: Annotated[
        Path, typer.Argument(metavar="DIR", help="A dumped call, or the folder of a process: then its last call.")
    ],
    cache: Annotated[
        Path | None, typer.Option("--cache", help="The cache that holds the kernel; those that are found, if none.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="The seconds that the call may take.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make a dumped call again, in a process of its own, and compare what it writes with its reference.

    Exit status 0: the call ended, and nothing is wrong. 1: it crashed, failed or hung, or an output is wrong.
    """
    from precast.build.on_gpu.replay import check_device, find_cache, notes_of, replayed
    from precast.loader.contract.diagnostics.dump_folder import find_call, read_dump

    folder = find_call(call).absolute()
    dump = read_dump(folder)
    held = find_cache(dump, cache)
    check_device(dump)
    result: dict[str, Any] = {
        "call": str(folder),
        "op": dump.op,
        "key": dump.key,
        "cache": str(held.path),
        "notes": notes_of(dump, held),
        **replayed(folder, held, timeout),
    }
    emit(result, render(dump, result), as_json)
    if not result["ended"] or any(one["wrong"] for one in result["outputs"]):
        raise typer.Exit(1)


def render(dump: Dump, result: dict[str, Any]) -> str:
    """The result as text."""
    from precast.loader.contract.format.config import config_text

    lines = [f"{dump.op} {config_text(dump.config)} for {dump.target}, call {dump.number} of process {dump.process}"]
    lines += [f"note: {note}" for note in result["notes"]]
    if not result["ended"]:
        lines.append(f"the call did not end: {result['error']}")
        return "\n".join([*lines, *([f"it last printed: {result['printed']}"] if result.get("printed") else [])])
    lines.append("the call ended")
    if result["unknown"]:
        lines.append(f"note: {result['unknown']}")
    if not result["outputs"]:
        lines.append("note: neither the signature nor a declaration says what the kernel writes: nothing was compared")
    for one in result["outputs"]:
        lines.append(f"{'wrong' if one['wrong'] else 'output'}: {one['name']}: {one['reference']}; {one['later']}")
    return "\n".join(lines)
