"""Merge caches that were built apart: shards of one build, or builds on several hosts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit


def command(
    caches: Annotated[list[Path], typer.Argument(help="The folders of the caches.", metavar="CACHE...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the merged cache.", metavar="CACHE")],
    name: Annotated[str, typer.Option(help="The merged cache's name, where theirs differ.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Merge caches that were built apart: shards of one build, or builds on several hosts.

    Where two of them contradict each other, every conflict is listed, nothing is written, and the exit status is 1.
    """
    from precast.build.cache.merge import merge_caches

    index = merge_caches(caches, output, name=name, threads=len(os.sched_getaffinity(0)))
    artifacts = sum(entry.artifacts for entry in index.ops.values())
    hosts = sorted(r.host.arch for r in index.runtimes)
    data = {"cache": str(output), "name": index.name, "artifacts": artifacts, "hosts": hosts}
    emit(
        data,
        f"{count(len(caches), 'cache')} merged: {output}, {count(artifacts, 'artifact')} for {', '.join(hosts)}",
        as_json,
    )
