"""The page of the command line: what ``precast COMMAND --help`` says, of every command."""

from __future__ import annotations

import sys
from typing import Any

import typer
from page_parts import NOTE, fenced, table

from precast.cli import main
from precast.cli.shared.help import record

HEAD = """\
# The command line

`precast COMMAND --help` says the same.

Every command has two options beside its own: `-q`, `--quiet` leaves out progress, warnings and notes, and `-v`,
`--verbose` prints failures in full, and where in precast an error was raised.

Exit status 0: done. 1: something failed or is missing. 2: the request itself is wrong. 130: interrupted. Errors go to
standard error, and end with what to do."""


def page() -> str:
    """The whole page."""
    return "\n\n".join([HEAD, _contents(), *(_command(name) for name in main.commands())]) + "\n" + NOTE


def _contents() -> str:
    rows = [
        (main.PANELS[main.room_of()[name.split()[0]]], f"[`{name}`](#precast-{name.replace(' ', '-')})", line)
        for name, line in main.commands().items()
    ]
    return table(("", "command", ""), rows)


def _command(name: str) -> str:
    command = main.load(name)
    parts = [f"## `precast {name}`", command.help]
    described = [p for p in command.params if not getattr(p, "hidden", False) and p.name not in ("quiet", "verbose")]
    arguments = [p for p in described if p.param_type_name == "argument"]
    options = [p for p in described if p.param_type_name == "option"]
    parts.append(
        fenced("text", " ".join(["precast", name, *(["[OPTIONS]"] if options else []), *map(_shown, arguments)]))
    )
    if arguments:
        parts.append(table(("argument", ""), [(f"`{_shown(p)}`", _help(p)) for p in arguments]))
    if options:
        parts.append(table(("option", ""), [(f"`{_names(p)}`", _help(p)) for p in options]))
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    if examples:
        parts.append(fenced("sh", "\n".join(examples)))
    return "\n\n".join(parts)


def _shown(argument: Any) -> str:
    """An argument as the usage has it: in brackets where it may be left out."""
    return _record(argument)[0]


def _names(option: Any) -> str:
    """The spellings of an option, with what it takes."""
    return _record(option)[0]


def _help(parameter: Any) -> str:
    """What it does, with its default, but for one that is this Python's own version."""
    text = _record(parameter)[1]
    return text.replace(f"[default: {sys.version_info[0]}.{sys.version_info[1]}]", "[default: that of this Python]")


def _record(parameter: Any) -> tuple[str, str]:
    """The two columns of the help."""
    return record(parameter, typer.Context(typer.main.get_command(main.app)))
