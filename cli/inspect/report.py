"""Write what a cache holds, costs and reached as one page for people: an HTML file that loads nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit, size


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.", metavar="FILE")],
    against: Annotated[
        Path | None, typer.Option("--against", help="Show what changed since this cache.", metavar="CACHE")
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option("--bench", help="Show shares of the roofline, from a file of 'precast bench -o'.", metavar="FILE"),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Where built variants are kept, with compile times.", envvar="PRECAST_STORE", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the data of the page as JSON.")] = False,
) -> None:
    """Write what a cache holds, costs and reached as one page for people: an HTML file that loads nothing.

    It has a table of the variants that sorts and filters, with the line of a program that gets each; their sizes as
    boxes; which variant wins at which measured problem; and, with --against, what changed.
    """
    from precast.build.bench.report import Report
    from precast.build.cache.contents import CacheContents
    from precast.build.disk.scratch import write_atomically
    from precast.build.store.store import Store, default_store
    from precast.build.web_report.page import page
    from precast.build.web_report.page_data import page_data

    if output.is_dir() or not output.absolute().parent.is_dir():
        raise typer.BadParameter(f"--output {output}: name a file in a folder that exists")
    found = page_data(
        CacheContents.open(cache),
        against=CacheContents.open(against) if against else None,
        bench=Report.decode(bench.read_bytes()) if bench else None,
        store=Store(store or default_store()),
    )
    data = page(found).encode()
    write_atomically(output, data)
    text = f"{output}: {count(len(found.variants), 'variant')} of {found.name}, {size(len(data))}"
    emit({"file": str(output), "bytes": len(data), **found.to_json()}, text, as_json)
