"""Write files to begin with: a kernel that builds at once, a library's warm-up and its manifest, or a CI."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.output import emit

if TYPE_CHECKING:
    from precast.loader.contract.format.target import Target


def command(
    name: Annotated[
        str,
        typer.Argument(
            help="What it is called: a name that Python takes; with --ci, the manifest's, without .yaml.",
            metavar="NAME",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the files.", metavar="DIR")] = Path(),
    attach: Annotated[
        str,
        typer.Option("--attach", help="Begin with a library's calls: quack, flashinfer or flash_attention."),
    ] = "",
    ci: Annotated[
        bool, typer.Option("--ci", help="Write the steps and the workflow that build and ship NAME.yaml.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the files and commands as JSON.")] = False,
) -> None:
    """Write files to begin with: a kernel that builds at once, a library's warm-up and its manifest, or a CI.

    A kernel comes with what its verification and its benchmark need. No file that exists is touched.
    """
    from precast.build.scaffold.scaffold import new_attached, new_ci, new_kernel

    if attach and ci:
        raise typer.BadParameter("--attach and --ci write different files: run precast new for each")
    made = (
        new_attached(attach, name)
        if attach
        else new_ci(name, _targets(output / f"{name}.yaml"))
        if ci
        else new_kernel(name)
    )
    written = made.write(output)
    commands = [*([] if output == Path() else [f"cd {shlex.quote(str(output))}"]), *made.next]
    lines = [*(f"wrote {path}" for path in written), "", "next:", *(f"  {line}" for line in commands)]
    emit({"files": [str(path) for path in written], "next": commands}, "\n".join(lines), as_json)


def _targets(manifest: Path) -> set[Target]:
    """What a manifest is built for; nothing where it is not written yet."""
    from precast.build.plan.manifest import read_manifest

    return (
        {target for entry in read_manifest(manifest).entries for target in entry.targets}
        if manifest.is_file()
        else set()
    )
