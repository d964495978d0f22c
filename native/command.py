"""Compile libprecast, which launches kernels in programs without Python; or freeze what such a program requests.

Without CACHE, DIR gets include/precast.h, lib/libprecast.so and a file for pkg-config. This host's gcc compiles the
library, for this host; it needs libc alone.

With CACHE, DIR gets table.json and the kernels that serve the requests of --requests, each decided as by loader.get:
libprecast opens that folder. The requests are a file that PRECAST_REQUESTS named in a run of Python, or a YAML list
such as '- {op: rmsnorm, config: {dtype: bfloat16, hidden: 4096}}'. docs/native.md describes both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_message, print_result, size

EXAMPLES = (
    "precast native -o libprecast",
    "precast native cache --requests requests.yaml -t sm_90a -o kernels",
)


def command(
    output: options.OutputFolder,
    caches: Annotated[
        list[Path] | None, typer.Argument(help="Caches to freeze kernels of, the preferred first.", metavar="CACHE...")
    ] = None,
    requests: Annotated[Path | None, typer.Option("--requests", help="The requests to freeze.", metavar="FILE")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "-t", help="Freeze for this target, not for this GPU; may be repeated.", metavar="TARGET"
        ),
    ] = None,
    verified: Annotated[Literal["gpu", "emulated"] | None, typer.Option(help="Take only what was verified so.")] = None,
    as_json: options.Json = False,
) -> None:
    if not caches or requests is None:
        if caches or requests or target or verified:
            raise typer.BadParameter("give both CACHE and --requests FILE to freeze kernels, or neither")
        _compile(output, as_json)
        return
    from precast.loader import current_session
    from precast.loader.command_line.explanation import VERIFIED
    from precast.loader.contract.values import replace
    from precast.native.frozen_table import TABLE, freeze, write_table
    from precast.native.requests_file import read_requests

    machines = current_session().machines
    listed, notes = read_requests(requests)
    listed = tuple(replace(request, verified=VERIFIED[verified or ""]) for request in listed)
    table = freeze(caches, listed, [machines.for_target(text) for text in target or ()] or [machines.on()])
    write_table(table, output)
    for note in (*notes, *table.notes):
        print_message(f"warning: {note}")
    counts = f"{count(table.requests, 'request')}, {count(table.kernels, 'kernel')}, {size(table.size)}"
    data = {"requests": table.requests, "kernels": table.kernels, "bytes": table.size, "sha256": table.sha256}
    print_result(data, f"{output / TABLE}: {counts}; sha256 {table.sha256}", as_json)


def _compile(output: Path, as_json: bool) -> None:
    from precast.native.libprecast import write_library

    files = write_library(output)
    print_result({"files": [str(path) for path in files]}, "\n".join(map(str, files)), as_json)
