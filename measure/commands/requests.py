"""Write a manifest of the kernels that a program requested.

With PRECAST_REQUESTS=FILE, the loader logs each distinct request of a program to that file. The manifest builds what
was requested, for the GPUs on which it was requested, or for those of --target. With --grid, the result is the list of
the requested problems, with the 'precast bench' lines that measure them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_message, print_result

EXAMPLES = (
    "precast requests requests.jsonl -o requested.yaml",
    "precast requests requests.jsonl --only missing -o missing.yaml",
    "precast requests requests.jsonl --grid",
)


def command(
    files: Annotated[list[Path], typer.Argument(help="Files that PRECAST_REQUESTS named.", metavar="REQUESTS...")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.", metavar="FILE")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Build for this target; may be repeated.", metavar="TARGET"),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The name in the manifest.", metavar="NAME")] = "requested",
    only: Annotated[
        Literal["missing", "used"] | None,
        typer.Option("--only", help="Only requests that no cache served, or only those that one did."),
    ] = None,
    grid: Annotated[bool, typer.Option("--grid", help="Write the requested problems, not a manifest.")] = False,
    as_json: options.Json = False,
) -> None:
    from precast.build.plan.request_files import read_request_files
    from precast.cli.shared.output import check_output_file
    from precast.loader.contract.format.patterns import CACHE_NAME
    from precast.loader.contract.format.target import Target
    from precast.measure.requests import entries_of, grid_of, grid_text, manifest_of

    if not CACHE_NAME.admits(name):
        raise typer.BadParameter(f"--name {name}: use lower-case letters, digits and single dashes")
    check_output_file("--output", output)
    targets = [str(Target.parse(text)) for text in target or ()]
    requests, notes = read_request_files(files)
    for note in notes:
        print_message(f"warning: {note}")
    problems = grid_of(requests)
    data: dict[str, Any] = {
        "problems": {
            op: [{"problem": problem, "count": number} for problem, number in rows] for op, rows in problems.items()
        }
    }
    if grid:
        text = grid_text(problems)
    else:
        text = manifest_of(requests, name=name, only=only, targets=targets).rstrip("\n")
        data["manifest"] = f"{text}\n"
        data["entries"] = [
            {
                **entry.wanted.to_json(),
                "targets": sorted(entry.targets),
                "used": entry.used,
                "missing": entry.missing,
            }
            for entry in entries_of(requests, only=only, targets=targets)
        ]
    if output is not None:
        from precast.build.disk.scratch import write_output

        write_output(output, f"{text}\n".encode())
        text = f"wrote {output}"
    print_result(data, text, as_json)
