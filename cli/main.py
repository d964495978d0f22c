"""The command ``precast``: finds the subcommand's file, runs it, and turns errors into messages and exit statuses.

Exit statuses: 0 done; 1 something failed or is missing; 2 the request itself is wrong; 130 interrupted.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from precast.build.errors import OutputError
from precast.loader.errors import ConfigError, FormatError, PrecastError, TargetError

# The commands by the folder that holds their files, in the order of the help. One file is one command.
ROOMS = {
    "make": ("new", "plan", "build", "check", "reproduce", "record"),
    "ship": ("wheel", "bundle", "push", "fetch", "merge", "native"),
    "inspect": ("list", "show", "diff", "report", "export", "store", "toolchains", "doctor", "error", "schema"),
    "measure": ("verify", "bench", "tune", "replay"),
}
# The heading of each folder's commands in the help.
PANELS = {"make": "Build", "ship": "Ship", "inspect": "Look", "measure": "Measure (on a GPU)"}

# Errors of the request itself: trying again without changing it will not help.
WRONG_REQUEST = (ConfigError, FormatError, TargetError, OutputError)
FAILED, WRONG, INTERRUPTED = 1, 2, 130


@cache
def commands() -> dict[str, str]:
    """Every command with its one line of help, read from its file without importing it.

    >>> commands()["doctor"]
    'Say what is installed, which GPU and caches there are, and what would not work.'
    """
    return {name: _first_line(folder(room) / f"{name}.py") for name, room in room_of().items()}


@cache
def room_of() -> dict[str, str]:
    """Every command with the folder that holds its file.

    >>> room_of()["build"]
    'make'
    """
    return {name: room for room, names in ROOMS.items() for name in names}


def folder(room: str) -> Path:
    """The folder of a room's commands."""
    return Path(__file__).parent / room


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0]


class Commands(TyperGroup):
    """The subcommands. A command's file is imported only to run or complete it, so that ``--help`` stays fast."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments before the subcommand, where a shell's completion may be asked for."""
        if any(arg.endswith("-completion") for arg in args):
            from precast.cli.completion import answer_first_tab

            answer_first_tab()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        return list(room_of())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as the list of commands shows it: its name, its line of help, its heading."""
        if cmd_name not in room_of():
            return None
        return TyperCommand(cmd_name, help=commands()[cmd_name], rich_help_panel=PANELS[room_of()[cmd_name]])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run or to complete: here its file is imported."""
        name, *rest = args
        if name in room_of():
            return name, load(name), rest
        if ctx.resilient_parsing:  # the shell asks for completions: there are none, and no message
            return None, None, rest
        from precast.loader.contract.format.config import suggest

        return ctx.fail(f"No such command {name!r}{suggest(name, room_of())}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C ends it with a message and the status that shells use for it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            _tell(f"interrupted{f': {interrupt}' if interrupt.args else ''}")
            raise typer.Exit(INTERRUPTED) from None


def load(name: str) -> Any:
    """The command that ``cli/ROOM/NAME.py`` defines as ``command``."""
    from precast.cli.completion import complete
    from precast.cli.shared.examples import epilog

    single = typer.Typer(add_completion=False)
    function = importlib.import_module(f"precast.cli.{room_of()[name]}.{name}").command
    single.command(name, epilog=epilog(name))(function)
    command = typer.main.get_command(single)
    for option in command.params:
        if getattr(option, "is_flag", False):
            option.metavar = ""  # a flag takes no value: its help names no type
    complete(command)
    return command


def _version(value: bool) -> None:
    if value:
        typer.echo(f"precast {version('precast')} (loader {version('precast-loader')})")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an unexpected error keeps Python's own traceback, complete also in a log
    context_settings={"help_option_names": ["--help", "-h"]},
)


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
    """What the console script calls. Errors that precast raises, and files that cannot be used, give no traceback."""
    try:
        try:
            app(args=None if argv is None else list(argv), prog_name="precast")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
        sys.exit(FAILED)
    except PrecastError as error:
        _tell(f"error: {error}\nmore: precast error {error.code}")
        sys.exit(status_of(error))
    except OSError as error:
        if error.filename is None:
            raise
        _tell(f"error: {error.filename}: {error.strerror}: check the path and its permissions")
        sys.exit(FAILED)


def _tell(message: str) -> None:
    from precast.cli.shared.output import tell  # not at the top: the help imports nothing that it does not need

    tell(message)


def _close_stdout() -> None:
    """The reader of our output has gone, as ``head`` does: the interpreter's last flush must not complain."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    run()
