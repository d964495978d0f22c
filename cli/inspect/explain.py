"""Print which artifact loader.get takes for a config, and why it takes no other.

Nothing is loaded. Without a CACHE, installed caches and those of PRECAST_CACHE_PATH count, as for loader.get. Exit
status 1 means that no artifact serves the request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_message, print_result
from precast.cli.shared.project import project_here
from precast.loader.command_line.explanation import explained, to_json
from precast.loader.errors import OpNotFound
from precast.loader.resolve.cache import Cache

EXAMPLES = (
    "precast explain rmsnorm dtype=bf16 hidden=4096",
    "precast explain cache scale dtype=float32 -t sm_90a",
)


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="The folder of a cache, if it is not installed; the op; the config, such as dtype=bfloat16.",
            metavar="[CACHE] OP [KEY=VALUE]...",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Decide for this architecture, not for this GPU.", metavar="TARGET"),
    ] = None,
    device: Annotated[int | None, typer.Option(help="Decide for this GPU.", metavar="N")] = None,
    problem: Annotated[
        list[str] | None, typer.Option(help="A size of the call, such as m=4096; may be repeated.", metavar="NAME=SIZE")
    ] = None,
    verified: Annotated[Literal["gpu", "emulated"] | None, typer.Option(help="Take only what was verified so.")] = None,
    as_json: options.Json = False,
) -> None:
    cache, op, config = _split(words)
    try:
        decision = explained(
            op,
            config,
            device=device,
            target=target,
            problem=problem or (),
            verified=verified or "",
            cache=str(Cache(Path(cache)).path) if cache else "",
        )
    except OpNotFound:
        if not cache:
            _note_project()
        raise
    print_result(to_json(decision), str(decision), as_json)
    if decision.chosen is None:
        raise typer.Exit(1)


def _split(words: list[str]) -> tuple[str, str, list[str]]:
    """The cache, the op and the config: only words of a config have a ``=``.

    >>> _split(["cache", "scale", "dtype=float32"]), _split(["scale", "dtype=float32"])
    (('cache', 'scale', ['dtype=float32']), ('', 'scale', ['dtype=float32']))
    """
    named = len(words) > 1 and "=" not in words[1]
    return (words[0] if named else ""), words[named], words[1 + named :]


def _note_project() -> None:
    """Print that the project's cache is not among those that are searched, where there is one."""
    project = project_here()
    if project is not None and (project.output / "index.json").is_file():
        print_message(f"note: {project.output} of precast.toml is not installed: PRECAST_CACHE_PATH={project.output}")
