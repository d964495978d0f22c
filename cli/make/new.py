"""Write files to begin with: a kernel that builds at once, or a library's warm-up and its manifest."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import emit


def command(
    name: Annotated[str, typer.Argument(help="What it is called: a name that Python takes.", metavar="NAME")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the files.", metavar="DIR")] = Path(),
    attach: Annotated[
        str,
        typer.Option("--attach", help="Begin with a library's calls: quack, flashinfer or flash_attention."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the files and commands as JSON.")] = False,
) -> None:
    """Write files to begin with: a kernel that builds at once, or a library's warm-up and its manifest.

    A kernel comes with what its verification and its benchmark need. No file that exists is touched.
    """
    from precast.build.scaffold.scaffold import new_attached, new_kernel

    made = new_attached(attach, name) if attach else new_kernel(name)
    written = made.write(output)
    commands = [*([] if output == Path() else [f"cd {shlex.quote(str(output))}"]), *made.next]
    lines = [*(f"wrote {path}" for path in written), "", "next:", *(f"  {line}" for line in commands)]
    emit({"files": [str(path) for path in written], "next": commands}, "\n".join(lines), as_json)
