"""List the caches that the loader searches, in their order.

Exit status 1 means that one of them is broken or missing.
"""

from __future__ import annotations

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result
from precast.loader.command_line.listing import cache_table, cache_to_json

EXAMPLES = ("precast caches",)


def command(as_json: options.Json = False) -> None:
    from precast import loader

    caches = loader.caches()
    print_result([cache_to_json(cache) for cache in caches], cache_table(caches), as_json)
    if any(cache.error for cache in caches):
        raise typer.Exit(1)
