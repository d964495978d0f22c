"""Write the first files of a kernel, of a library's warm-up, or of a CI.

The files of a kernel build without changes, and can be verified and benchmarked. Existing files are not changed.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result

if TYPE_CHECKING:
    from precast.loader.contract.format.target import Target

EXAMPLES = (
    "precast new rope -o rope",
    "precast new server --attach quack",
)


def command(
    name: Annotated[
        str,
        typer.Argument(
            help="The name, a Python identifier; with --ci, the manifest's file name without .yaml.", metavar="NAME"
        ),
    ],
    output: options.OutputFolder = Path(),
    attach: Annotated[
        str,
        typer.Option(
            "--attach",
            help="Write a warm-up that calls this library: quack, flashinfer or flash_attention.",
            metavar="LIBRARY",
        ),
    ] = "",
    ci: Annotated[
        bool, typer.Option("--ci", help="Write the steps and the workflow that build and ship NAME.yaml.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    from precast.build.scaffold.scaffold import new_attached, new_ci, new_kernel

    if attach and ci:
        raise typer.BadParameter("--attach and --ci write different files: run precast new for each")
    if attach:
        scaffold = new_attached(attach, name)
    elif ci:
        scaffold = new_ci(name, _targets(output / f"{name}.yaml"))
    else:
        scaffold = new_kernel(name)
    written = scaffold.write(output)
    commands = [*([] if output == Path() else [f"cd {shlex.quote(str(output))}"]), *scaffold.next]
    lines = [*(f"wrote {path}" for path in written), "", "next:", *(f"  {line}" for line in commands)]
    print_result({"files": [str(path) for path in written], "next": commands}, "\n".join(lines), as_json)


def _targets(path: Path) -> set[Target]:
    """The targets of a manifest. One that does not exist is refused: the workflow would fail at its first step."""
    from precast.build.plan.manifest import read_manifest

    return {target for entry in read_manifest(path).entries for target in entry.targets}
