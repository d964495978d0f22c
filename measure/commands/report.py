"""Write an HTML page about a cache: its variants, their sizes and their measured times.

The page loads nothing from a network. It has a table of the variants that sorts and filters, with the line of a
program that gets each; their sizes as boxes; the fastest variant for each measured problem; and, with --against,
what has changed. Compile times come from the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import check_output_file, count, print_result, size
from precast.cli.shared.project import cache_or_project, store_folder

EXAMPLES = (
    "precast report cache -o report.html",
    "precast report cache -o report.html --against old",
)


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.", metavar="FILE")],
    cache: options.CacheOrProject = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Show what has changed since this cache.", metavar="CACHE")
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(
            "--bench", help="Show shares of the roofline, from a file of 'precast bench --json'.", metavar="FILE"
        ),
    ] = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.cache.contents import CacheContents
    from precast.build.disk.scratch import write_output
    from precast.build.store.store import Store
    from precast.build.wheel.wheel import content_time
    from precast.measure.bench.report import Report
    from precast.measure.web_report.page import page
    from precast.measure.web_report.page_data import page_data

    check_output_file("--output", output)
    path = cache_or_project(cache)
    contents = page_data(
        CacheContents.open(path),
        against=CacheContents.open(against) if against else None,
        bench=Report.decode(bench.read_bytes()) if bench else None,
        store=Store(store_folder(store)),
        seconds=content_time(path),
    )
    data = page(contents).encode()
    write_output(output, data)
    text = f"{output}: {count(len(contents.variants), 'variant')} of {contents.name}, {size(len(data))}"
    print_result({"file": str(output), "bytes": len(data), **contents.to_json()}, text, as_json)
