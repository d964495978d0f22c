"""Print a bill of materials of a cache or a wheel, in CycloneDX's JSON.

It lists the index and the runtime libraries with their digests, and the packages and programs that the cache was built
with, as far as the cache records them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = ("precast sbom cache -o cache.cdx.json",)


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache, or its wheel.", metavar="CACHE|WHEEL")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write in place of printing.", metavar="FILE")
    ] = None,
) -> None:
    from precast.build.disk.scratch import write_output
    from precast.publish.signing.sbom import bill

    text = bill(cache)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_output(output, text.encode())
        typer.echo(f"{output}: the bill of materials of {cache}")
