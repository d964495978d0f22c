"""Collect cache wheels, the loader and its dependencies into a folder that installs without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit, size


def command(
    wheels: Annotated[list[Path], typer.Argument(help="Cache wheels, from 'precast wheel'.", metavar="WHEEL...")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A new folder.")],
    python: Annotated[
        str, typer.Option("--python", help="The version of Python to install for.")
    ] = f"{sys.version_info[0]}.{sys.version_info[1]}",
    platform: Annotated[
        str, typer.Option("--platform", help="Its platform, such as manylinux_2_28_x86_64; the cache's if not given.")
    ] = "",
    find_links: Annotated[
        list[Path] | None, typer.Option("--find-links", help="A folder with further wheels; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Collect cache wheels, the loader and its dependencies into a folder that installs without a network."""
    from precast.build.wheel.bundle import bundle

    files = bundle(wheels, output, python=python, platform=platform, find_links=find_links or ())
    total = sum(f.path.stat().st_size for f in files)
    lines = [f"{f.path.name}  {size(f.path.stat().st_size)}" for f in files]
    lines.append(f"{output}: {count(len(files), 'wheel')}, {size(total)}; install with 'sh {output}/install.sh'")
    data = [{"name": f.name, "version": f.version, "file": f.path.name, "sha256": f.sha256} for f in files]
    emit(data, "\n".join(lines), as_json)
