"""Run a program from the companions of a cache, and list what is still compiled.

The files are verified and placed into a new folder, as where the cache is installed, and the program runs with it. If
a companion then has new or changed files, or a compiler was started, it is listed, and the exit status is 1. What does
not fit this machine is an error before the program runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from precast.attach.builder.start.record import Companions
from precast.cli.shared import options
from precast.cli.shared.output import count, print_message

EXAMPLES = ("precast start check cache -- python warmup.py",)


def command(
    cache: options.Cache,
    program: Annotated[list[str], typer.Argument(help="The program and its arguments, after '--'.")],
    companion: Companions = None,
) -> None:
    from precast.attach.builder.checked_start import check_start
    from precast.attach.builder.recorded_run import ended
    from precast.attach.builder.recorded_start import companions_named
    from precast.loader.resolve.cache import Cache

    checked = check_start(Cache(cache), program, companions_named(companion or ()))
    for line in checked.problems:
        print_message(line)
    if checked.status:
        print_message(f"the program {ended(checked.status)}")
    if checked.problems or checked.status:
        raise typer.Exit(1)
    print(f"{cache}: nothing was compiled: {count(checked.files, 'file')} of {count(checked.companions, 'companion')}")
