"""Put measurements into a cache, so that the loader chooses by them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    files: Annotated[
        list[Path], typer.Argument(help="Files from 'precast bench'; a later one wins.", metavar="FILE...")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Put measurements into a cache, so that the loader chooses by them."""
    from precast.build.cache.annotate import Measurements, tune
    from precast.loader.errors import FormatError
    from precast.loader.resolve.cache import Cache

    read = []
    for file in files:
        try:
            read.append(Measurements.decode(file.read_bytes()))
        except OSError as error:
            raise FormatError(f"{file} cannot be read ({error.strerror}): name a file from 'precast bench'") from None
        except FormatError as error:
            raise error.within(str(file)) from None
    counts = tune(Cache(cache), read)
    lines = [f"{op}: {count(number, 'measured time')}" for op, number in sorted(counts.items())]
    emit(counts, "\n".join(lines) or "nothing was measured", as_json)
