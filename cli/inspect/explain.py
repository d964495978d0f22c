"""Print which artifact loader.get takes for a config, and why it takes no other.

Nothing is loaded, and only installed caches and those of PRECAST_CACHE_PATH count, as for loader.get. Exit status 1
means that no artifact serves the request.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_message, print_result
from precast.cli.shared.project import project_here
from precast.loader.command_line.explanation import explained, to_json
from precast.loader.errors import OpNotFound


def command(
    op: Annotated[str, typer.Argument(help="The op.", metavar="OP")],
    config: Annotated[
        list[str] | None,
        typer.Argument(help="The config, such as dtype=bfloat16 tile=[64,128].", metavar="KEY=VALUE..."),
    ] = None,
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
    try:
        decision = explained(
            op, config or (), device=device, target=target, problem=problem or (), verified=verified or ""
        )
    except OpNotFound:
        _note_project()
        raise
    print_result(to_json(decision), str(decision), as_json)
    if decision.chosen is None:
        raise typer.Exit(1)


def _note_project() -> None:
    """Print that the project's cache is not among those that are searched, where there is one."""
    project = project_here()
    if project is not None and (project.output / "index.json").is_file():
        print_message(f"note: {project.output} of precast.toml is not installed: PRECAST_CACHE_PATH={project.output}")
