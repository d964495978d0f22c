"""The command ``precast``: finds the subcommand's file, runs it, and turns errors into messages and exit statuses."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from precast.loader.errors import ConfigError, FormatError, PrecastError, TargetError

# One file a command, in the order of the road. What stands here and has a file is a command.
# Each command by the room that holds its file, in the order of the help.
ROOMS = {
    "make": ("plan", "build", "check", "reproduce"),
    "ship": ("wheel", "bundle", "merge"),
    "inspect": ("list", "show", "diff", "export", "store", "doctor", "schema"),
    "measure": ("verify", "bench", "tune"),
}

# The request itself is wrong, and trying again will not help.
WRONG_REQUEST = (ConfigError, FormatError, TargetError)
FAILED, WRONG = 1, 2


@cache
def commands() -> dict[str, str]:
    """Every command with its one line of help, read from its file without importing it.

    >>> commands()["doctor"]
    'Say what is installed, which GPU and caches there are, and what would not work.'
    """
    here = Path(__file__).parent
    return {name: _first_line(here / room / f"{name}.py") for room, names in ROOMS.items() for name in names}


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0]


class Commands(TyperGroup):
    """The subcommands. A file is imported only when its command runs, so that ``--help`` stays quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the road."""
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as the list of commands shows it."""
        line = commands().get(cmd_name)
        return None if line is None else TyperCommand(cmd_name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is about to run: now its file is imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, (load(name) if name is not None else command), rest


def load(name: str) -> Any:
    """The command that ``cli/ROOM/NAME.py`` defines as ``command``."""
    single = typer.Typer(add_completion=False)
    room = next(room for room, names in ROOMS.items() if name in names)
    single.command(name)(importlib.import_module(f"precast.cli.{room}.{name}").command)
    return typer.main.get_command(single)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"precast {version('precast')} (loader {version('precast-loader')})")
        raise typer.Exit


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the versions and exit.")
    ] = False,
) -> None:
    """Compile CuTe DSL kernels ahead of time, ship them as a wheel, launch them where no compiler is installed."""


def status_of(error: PrecastError) -> int:
    """The exit status for an error: 2 where the request itself is wrong, else 1.

    >>> status_of(TargetError("")), status_of(PrecastError(""))
    (2, 1)
    """
    return WRONG if isinstance(error, WRONG_REQUEST) else FAILED


def run(argv: Sequence[str] | None = None) -> None:
    """What the console script calls. Never a traceback for an error that precast raised on purpose."""
    try:
        app(args=None if argv is None else list(argv), prog_name="precast")
    except PrecastError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(status_of(error))


if __name__ == "__main__":
    run()
