"""Collect cache wheels, the loader and its dependencies in a folder that installs without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result, size

EXAMPLES = ("precast bundle dist/*.whl -o bundle --python 3.12",)


def command(
    wheels: Annotated[list[Path], typer.Argument(help="Cache wheels, from 'precast wheel'.", metavar="WHEEL...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new folder.", metavar="DIR")],
    python: Annotated[
        str, typer.Option("--python", help="The version of Python to install for.", metavar="VERSION")
    ] = f"{sys.version_info[0]}.{sys.version_info[1]}",
    platform: Annotated[
        str,
        typer.Option(
            "--platform", help="The platform tag, such as manylinux_2_28_x86_64; by default the wheels'.", metavar="TAG"
        ),
    ] = "",
    find_links: Annotated[
        list[Path] | None,
        typer.Option("--find-links", help="A folder with more wheels; may be repeated.", metavar="DIR"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from precast.publish.bundle import bundle

    files = bundle(wheels, output, python=python, platform=platform, find_links=find_links or ())
    total = sum(f.path.stat().st_size for f in files)
    lines = [f"{f.path.name}  {size(f.path.stat().st_size)}" for f in files]
    lines.append(f"{output}: {count(len(files), 'wheel')}, {size(total)}; install with 'sh {output}/install.sh'")
    data = [{"name": f.name, "version": f.version, "file": f.path.name, "sha256": f.sha256} for f in files]
    print_result(data, "\n".join(lines), as_json)
