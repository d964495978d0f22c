"""How much a command prints: ``--quiet`` and ``--verbose``, which every command has."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import Annotated, Any, TextIO

import typer

_NOTES = ("warning:", "note:", "skipped:", "next,")


@dataclass(slots=True)
class Verbosity:
    """What the running command was given.

    >>> Verbosity(quiet=True).prints("warning: an old driver"), Verbosity(quiet=True).prints("error: no driver")
    (False, True)
    """

    quiet: bool = False
    verbose: bool = False

    def prints(self, message: str) -> bool:
        """Whether a message is printed: a quiet command prints only what is wrong."""
        return not (self.quiet and message.startswith(_NOTES))

    def progress_stream(self) -> TextIO:
        """Where progress goes: to stderr, or nowhere."""
        return io.StringIO() if self.quiet else sys.stderr


verbosity = Verbosity()


def _keep_quiet(value: bool) -> None:
    verbosity.quiet = value


def _keep_verbose(value: bool) -> None:
    verbosity.verbose = value


_QUIET = "Print no progress, warnings and notes: only results and errors."
_VERBOSE = "Print failures in full, and where in precast an error was raised."


def _declared(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help=_QUIET, callback=_keep_quiet, expose_value=False)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help=_VERBOSE, callback=_keep_verbose, expose_value=False)
    ] = False,
) -> None: ...


def verbosity_options() -> list[Any]:
    """The two options of a command, which set ``verbosity``."""
    single = typer.Typer(add_completion=False)
    single.command()(_declared)
    return list(typer.main.get_command(single).params)
