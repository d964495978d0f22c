"""Say what an error means, by its code, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from precast.cli.inspect.error_page import Entry, entries, find
from precast.cli.shared.output import emit, folded, table, terminal_width


def command(
    code: Annotated[
        str, typer.Argument(help="The code, such as PCL07, or the name of the class; all are listed without it.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print the entry, or all of them, as JSON.")] = False,
) -> None:
    """Say what an error means, by its code, and what to do.

    The text is that of docs/errors.md, and is here without a network.
    """
    if not code:
        listed = entries()
        rows = [(one.code, one.name, _sentence(one.meaning)) for one in listed]
        emit([asdict(one) for one in listed], table(["code", "error", "meaning"], rows), json)
        return
    one = find(code)
    emit(asdict(one), folded("\n".join(_lines(one)), terminal_width(sys.stdout) or 100), json)


def _lines(one: Entry) -> Iterator[str]:
    yield f"{one.code} {one.name}"
    yield ""
    yield one.meaning
    if one.message:
        yield ""
        yield "An example:"
        yield from (f"    {line}".rstrip() for line in one.message.splitlines())
    yield ""
    yield f"What to do: {one.todo}"


def _sentence(meaning: str) -> str:
    """What an error means in one sentence: what follows on the names of the class and its module."""
    return meaning.partition(". ")[2].partition(". ")[0].rstrip(".")
