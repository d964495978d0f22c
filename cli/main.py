"""The command ``precast``: finds a command's file, runs it, and turns errors into messages and exit statuses.

Exit statuses: 0 done; 1 something failed or is missing; 2 the request itself is wrong; 130 interrupted.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from precast.build.errors import OutputError
from precast.loader.errors import ConfigError, FormatError, PrecastError, TargetError

# The commands by the folder that holds their files, in the order of the help. One file is one command: its docstring
# is the help, and its function ``command`` has the arguments and options.
ROOMS = {
    "make": ("init", "new", "plan", "requests", "build", "check", "reproduce", "record", "start"),
    "ship": ("wheel", "sign", "verify-signature", "sbom", "bundle", "push", "fetch", "merge", "native"),
    "inspect": (
        "list", "show", "explain", "caches", "diff", "report", "export", "store", "doctor", "error",
        "schema",
    ),
    "measure": ("verify", "bench", "tune"),
}  # fmt: skip
# The heading of each folder's commands in the help.
PANELS = {"make": "Build", "ship": "Ship", "inspect": "Inspect", "measure": "Measure (on a GPU)"}
# Commands that are folders with commands of their own.
SUBCOMMANDS = {"tune": ("measure", "model", "prune", "apply"), "start": ("record", "check")}
# Commands whose files other distributions have, which an extra of precast installs.
SATELLITES = {
    "record": "precast.attach.builder.record",
    "start": "precast.attach.builder.start",
    "start record": "precast.attach.builder.start.record",
    "start check": "precast.attach.builder.start.check",
    "native": "precast.native.command",
    **{
        name: f"precast.measure.commands.{name}"
        for name in ("requests", "reproduce", "diff", "report", "export", "verify", "bench", "tune")
    },
    "tune measure": "precast.measure.commands.tune.measure",
    "tune model": "precast.measure.commands.tune.model",
    "tune prune": "precast.measure.commands.tune.prune",
    "tune apply": "precast.measure.commands.tune.apply",
    **{
        name: f"precast.publish.commands.{name.replace('-', '_')}"
        for name in ("sign", "verify-signature", "sbom", "bundle", "push")
    },
}

# Errors of the request itself: trying again without changing it will not help.
WRONG_REQUEST = (ConfigError, FormatError, TargetError, OutputError)
FAILED, WRONG, INTERRUPTED = 1, 2, 130


@cache
def commands() -> dict[str, str]:
    """Every command that runs, by its words after ``precast``, with the first line of its help.

    No command's file is imported for this.

    >>> commands()["doctor"]
    'Report what is installed, which GPUs and caches are present, and what will not work.'
    >>> [name for name in commands() if name.startswith("tune")]
    ['tune measure', 'tune model', 'tune prune', 'tune apply']
    """
    return {name: first_line(name) for names in ROOMS.values() for name in _expanded(names)}


@cache
def room_of() -> dict[str, str]:
    """Every command that follows ``precast``, with the folder that holds its file.

    >>> room_of()["build"]
    'make'
    """
    return {name: room for room, names in ROOMS.items() for name in names}


def module_of(name: str) -> str:
    """The module of a command.

    >>> module_of("tune apply")
    'precast.measure.commands.tune.apply'
    """
    words = name.split()
    return SATELLITES.get(name) or ".".join(["precast.cli", room_of()[words[0]], *words]).replace("-", "_")


def _expanded(names: Sequence[str]) -> list[str]:
    """Names of commands, with the subcommands in place of their group."""
    return [f"{name} {sub}".strip() for name in names for sub in SUBCOMMANDS.get(name, ("",))]


@cache
def _docstring(name: str) -> str:
    module = module_of(name)
    for folder in importlib.import_module("precast").__path__:
        path = Path(folder, *module.split(".")[1:])
        path = path / "__init__.py" if name in SUBCOMMANDS else path.with_suffix(".py")
        if path.is_file():
            return ast.get_docstring(ast.parse(path.read_bytes())) or ""
    from precast.kernels.authoring.extras import installing

    return f"Not installed: {installing(module)}."


def first_line(name: str) -> str:
    """The first line of the help of a command or a group."""
    return _docstring(name).partition("\n")[0]


class _Helped:
    """A mixin of commands: their help. A flag takes no value, so its help names no type."""

    def get_params(self, ctx: Any) -> Any:
        """The arguments and options, ``--help`` among them."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for option in params:
            if getattr(option, "is_flag", False):
                option.metavar = ""
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from precast.cli.shared.help import help_of

        formatter.write(help_of(self, ctx, getattr(self, "groups", list)()))


class Command(_Helped, TyperCommand):
    """One command."""


class Commands(_Helped, TyperGroup):
    """The commands, or the subcommands of one. A command's file is imported only to run or complete the command."""

    parent = ""
    """The command whose subcommands these are; empty for the commands of ``precast``."""

    def _full_names(self) -> dict[str, str]:
        """The commands by the word that is typed for each."""
        names = _expanded([self.parent]) if self.parent else list(room_of())
        return {name.rpartition(" ")[2]: name for name in names}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments before the subcommand, where a shell's completion may be requested; without any, the help."""
        if any(arg.endswith("-completion") for arg in args):
            from precast.cli.completion import answer_first_tab

            answer_first_tab()
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            raise typer.Exit(WRONG)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        return list(self._full_names())

    def groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The commands by the headings of their folders; those of a command under one heading."""
        if self.parent:
            return [("Commands", [(word, first_line(name)) for word, name in self._full_names().items()])]
        return [(PANELS[room], [(name, first_line(name)) for name in names]) for room, names in ROOMS.items()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as completion lists it: its name and its first line."""
        name = self._full_names().get(cmd_name)
        return None if name is None else TyperCommand(cmd_name, help=first_line(name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run or to complete: here its file is imported."""
        word, *rest = args
        names = self._full_names()
        if word in names:
            return word, load(names[word]), rest
        if ctx.resilient_parsing:  # completion of an unknown command: no message
            return None, None, rest
        from precast.loader.contract.format.config import suggest

        return ctx.fail(f"No such command {word!r}{suggest(word, names)}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C ends it with a message and the status that shells use for it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            _print_error(f"interrupted{f': {interrupt}' if interrupt.args else ''}")
            raise typer.Exit(INTERRUPTED) from None


def load(name: str) -> Any:
    """The command of this name: what its file defines as ``command``, or the group of its subcommands."""
    if name in SUBCOMMANDS:
        group = Commands(name=name, help=_docstring(name))
        group.parent = name
        return group
    from precast.build.satellites import satellite
    from precast.cli.completion import add_completion
    from precast.cli.shared.verbosity import verbosity_options

    single, module = typer.Typer(add_completion=False), satellite(module_of(name))
    single.command(
        name.rpartition(" ")[2], cls=Command, help=module.__doc__, epilog="\n  ".join(["Examples:", *module.EXAMPLES])
    )(module.command)
    command = typer.main.get_command(single)
    command.params += verbosity_options()
    add_completion(command, name)
    return command


def _version(value: bool) -> None:
    if value:
        typer.echo(f"precast {version('precast')} (loader {version('precast-loader')})")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
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
    """The console script. Errors that precast raises, and unusable files, are printed without a traceback."""
    try:
        try:
            app(args=None if argv is None else list(argv), prog_name="precast")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
        sys.exit(FAILED)
    except PrecastError as error:
        from precast.cli.shared.excerpt import error_text

        _print_traceback()
        _print_error(error_text(error))
        sys.exit(status_of(error))
    except OSError as error:
        if error.filename is None:
            raise
        _print_traceback()
        _print_error(f"error: {error.filename}: {error.strerror}: check the path and its permissions")
        sys.exit(FAILED)


def _print_error(message: str) -> None:
    from precast.cli.shared.output import print_message  # not at the top: the help needs none of it

    print_message(message)


def _print_traceback() -> None:
    """Print where the error was raised, above its message, for ``--verbose``."""
    from precast.cli.shared.verbosity import verbosity

    if verbosity.verbose:
        traceback.print_exc()


def _close_stdout() -> None:
    """Discard further output: its reader has exited, as ``head`` does, and the last flush must not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    run()
