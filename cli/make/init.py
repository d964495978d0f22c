"""Create a project of kernels: a kernel, its manifest, the project file, the environment, and a CI.

What it writes builds without changes: run precast build, precast check and precast verify --emulate in the folder. An
existing pyproject.toml or .gitignore stays as it is; other existing files are an error.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result

EXAMPLES = (
    "precast init",
    "precast init acme-norms --name norm",
)


def command(
    folder: Annotated[
        Path, typer.Argument(help="The folder; by default this one.", metavar="FOLDER", show_default=False)
    ] = Path(),
    name: Annotated[
        str, typer.Option("--name", help="The name of the kernel; by default the folder's.", metavar="NAME")
    ] = "",
    ci: Annotated[bool, typer.Option("--ci/--no-ci", help="Also write the steps and the workflow of a CI.")] = True,
    as_json: options.Json = False,
) -> None:
    from precast.build.scaffold.scaffold import name_of_folder, new_project

    scaffold = new_project(name or name_of_folder(folder), ci=ci)
    kept = scaffold.kept(folder)
    written = scaffold.write(folder)
    commands = [*([] if folder == Path() else [f"cd {shlex.quote(str(folder))}"]), *scaffold.next]
    lines = [*(f"wrote {path}" for path in written), *(f"kept {folder / name}" for name in kept)]
    data = {"files": [str(path) for path in written], "kept": [str(folder / name) for name in kept], "next": commands}
    print_result(data, "\n".join([*lines, "", "next:", *(f"  {line}" for line in commands)]), as_json)
