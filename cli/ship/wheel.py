"""Pack a cache as a wheel that pip installs and the loader finds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import emit, size


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of a cache.", metavar="CACHE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the wheel.", metavar="DIST")],
    version: Annotated[str, typer.Option(help="The wheel's version; by default 0.DATE.TIME+DIGEST of the cache.")] = "",
    host: Annotated[
        str, typer.Option(help="Of a cache for several hosts, the wheel of this one alone.", metavar="ARCH")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Pack a cache as a wheel that pip installs and the loader finds.

    Every byte of the cache is checked first. The default version is the UTC time at which the cache was written, or
    SOURCE_DATE_EPOCH where that is set, and the digest of its index: pip upgrades to what was built later, and the
    same cache gives the same wheel.
    """
    from precast.build.wheel.wheel import write_wheels

    wheels = write_wheels(cache, output, version=version or None, host=host or None)
    taken = {wheel: wheel.stat().st_size for wheel in wheels}
    data = {"wheels": [{"wheel": str(wheel), "size": taken[wheel]} for wheel in wheels]}
    emit(data, "\n".join(f"{wheel} ({size(taken[wheel])})" for wheel in wheels), as_json)
