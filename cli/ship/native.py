"""Compile libprecast, which loads kernels in programs without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import emit


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the files.", metavar="DIR")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compile libprecast, which loads kernels in programs without Python.

    DIR gets include/precast.h, lib/libprecast.so and a file for pkg-config. It is compiled by this host's gcc, for this
    host, and needs libc alone; docs/native.md says how a program uses it.
    """
    from precast.build.native.libprecast import write_library

    files = write_library(output)
    emit({"files": [str(path) for path in files]}, "\n".join(map(str, files)), as_json)
