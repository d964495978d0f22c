"""Explain an error by its code, with what to do about it.

The text is that of docs/errors.md, and needs no network.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import folded, print_result, table, terminal_width
from precast.loader.command_line.error_page import entries, find

EXAMPLES = (
    "precast error",
    "precast error PCL07",
    "precast error VariantNotFound",
)


def command(
    code: Annotated[
        str, typer.Argument(help="The code, such as PCL07, or the name of the class; without it, all are listed.")
    ] = "",
    as_json: options.Json = False,
) -> None:
    if not code:
        rows = [(entry.code, entry.name, entry.summary) for entry in entries()]
        print_result([asdict(entry) for entry in entries()], table(["code", "error", "meaning"], rows), as_json)
        return
    entry = find(code)
    print_result(asdict(entry), folded(str(entry), terminal_width(sys.stdout) or 100), as_json)
