"""Run a program and keep what other compilers compile at its start: Triton, torch.compile, vLLM, the CUDA driver.

The program runs with empty caches, and must end by itself. What Triton and the others have then left in their folders
is put into CACHE, beside the kernels that 'precast build' has put there, with digests and with what it depends on:
versions, the GPU, the driver. Where CACHE or its wheel is installed, PRECAST_ATTACH places these files before the
engine is imported. Build first: a build replaces the cache. The command is kept in the cache: leave out passwords.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_message, size
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.errors import ConfigError

Companions = Annotated[
    list[str] | None,
    typer.Option("--companion", help="Only this companion, such as triton; may be repeated.", metavar="NAME"),
]

EXAMPLES = ("precast start record -o cache -- python warmup.py",)


def command(
    output: options.OutputCache,
    program: Annotated[list[str], typer.Argument(help="The program and its arguments, after '--'.")],
    companion: Companions = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            "--recording",
            help="A file for the kernels that attached libraries request, for 'precast record --merge'.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    from precast.attach.builder.added_companions import add_companions
    from precast.attach.builder.recorded_run import ended
    from precast.attach.builder.recorded_start import companions_named, record_start
    from precast.build.cache.cache_folder import check_output

    companions = companions_named(companion or ())
    check_output(output)
    start = record_start(program, companions, recording)
    for reason in start.left_out:
        print_message(f"not recorded: {reason}")
    if start.status:
        print_message(f"the program {ended(start.status)}: nothing was written")
        raise typer.Exit(1)
    if not start.index.companions:
        raise ConfigError("the program left no file of a companion: check that it compiles anything")
    add_companions(output, _name_of(output), start.index, start.contents)
    for state in start.index.companions:
        total = sum(blob.size for file in state.files for blob in file.blobs)
        print(f"{output}: {state.name}: {count(len(state.files), 'file')}, {size(total)}")


def _name_of(output: Path) -> str:
    name = "-".join(re.findall(r"[a-z0-9]+", output.name.lower()))
    return name if CACHE_NAME.admits(name) else "start"
