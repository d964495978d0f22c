"""Pack a cache as a wheel that pip installs and the loader finds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.output import emit, size


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of a cache.", metavar="CACHE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the wheel.", metavar="DIST")],
    version: Annotated[str, typer.Option(help="The wheel's version; by default one made of the content.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Pack a cache as a wheel that pip installs and the loader finds."""
    from precast.build.wheel import write_wheel

    wheel = write_wheel(cache, output, version=version or None)
    taken = wheel.stat().st_size
    emit({"wheel": str(wheel), "size": taken}, f"{wheel} ({size(taken)})", as_json)
