"""Merge caches that were built separately: shards of one build, or builds on several hosts.

If two of them contradict each other, every conflict is listed, nothing is written, and the exit status is 1.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result

EXAMPLES = ("precast merge part1 part2 -o cache",)


def command(
    caches: Annotated[list[Path], typer.Argument(help="The folders of the caches.", metavar="CACHE...")],
    output: options.OutputCache,
    name: Annotated[
        str, typer.Option(help="The name of the merged cache; needed if theirs differ.", metavar="NAME")
    ] = "",
    as_json: options.Json = False,
) -> None:
    from precast.build.cache.merge import merge_caches

    index = merge_caches(caches, output, name=name, threads=len(os.sched_getaffinity(0)))
    artifacts = sum(entry.artifacts for entry in index.ops.values())
    hosts = sorted(r.host.arch for r in index.runtimes)
    data = {"cache": str(output), "name": index.name, "artifacts": artifacts, "hosts": hosts}
    text = f"{count(len(caches), 'cache')} merged: {output}, {count(artifacts, 'artifact')} for {', '.join(hosts)}"
    print_result(data, text, as_json)
