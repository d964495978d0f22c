"""Print which artifact loader.get takes for a config, and why it takes no other.

Nothing is loaded. Exit status 1 means that no artifact serves the request.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result
from precast.loader.command_line.explanation import explained, to_json


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
    decision = explained(op, config or (), device=device, target=target, problem=problem or (), verified=verified or "")
    print_result(to_json(decision), str(decision), as_json)
    if decision.chosen is None:
        raise typer.Exit(1)
