"""Run a dumped call again in a separate process, and compare its outputs with the reference.

A service that runs with PRECAST_DUMP=DIR writes each call there before it launches it. Exit status 1 means that the
call crashed, failed or hung, or that an output is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result

if TYPE_CHECKING:
    from precast.loader.contract.diagnostics.dump import Dump


def command(
    call: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A dumped call, or the folder of a process, for its last call."),
    ],
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="The cache with the kernel; by default an installed one.", metavar="CACHE"),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Time limit for the call, in seconds.", metavar="SEC")
    ] = 120.0,
    as_json: options.Json = False,
) -> None:
    from precast.build.on_gpu.replay import check_device, find_cache, notes_of, replayed
    from precast.loader.contract.diagnostics.dump_folder import find_call, read_dump

    folder = find_call(call).absolute()
    dump = read_dump(folder)
    opened = find_cache(dump, cache)
    check_device(dump)
    result: dict[str, Any] = {
        "call": str(folder),
        "op": dump.op,
        "key": dump.key,
        "cache": str(opened.path),
        "notes": notes_of(dump, opened),
        **replayed(folder, opened, timeout),
    }
    print_result(result, render(dump, result), as_json)
    if not result["ended"] or any(output["wrong"] for output in result["outputs"]):
        raise typer.Exit(1)


def render(dump: Dump, result: dict[str, Any]) -> str:
    """The result as text."""
    from precast.loader.contract.format.config import config_text

    lines = [f"{dump.op} {config_text(dump.config)} for {dump.target}, call {dump.number} of process {dump.process}"]
    lines += [f"note: {note}" for note in result["notes"]]
    if not result["ended"]:
        lines.append(f"the call did not end: {result['error']}")
        return "\n".join([*lines, *([f"its last output: {result['printed']}"] if result.get("printed") else [])])
    lines.append("the call ended")
    if result["unknown"]:
        lines.append(f"note: {result['unknown']}")
    if not result["outputs"]:
        lines.append(
            "note: nothing was compared: neither the signature nor a declaration lists the outputs of the kernel"
        )
    for output in result["outputs"]:
        state = "wrong" if output["wrong"] else "output"
        lines.append(f"{state}: {output['name']}: {output['reference']}; {output['later']}")
    return "\n".join(lines)
