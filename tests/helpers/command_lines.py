"""Command lines of precast."""

from __future__ import annotations

from collections.abc import Sequence

from precast.cli import main


def command_of(words: Sequence[str]) -> str:
    """The command that a command line starts with, behind ``precast``; empty if it starts with none.

    >>> command_of(["tune", "apply", "cache", "times.json"]), command_of(["wheel", "cache"])
    ('tune apply', 'wheel')
    """
    return next((name for name in main.commands() if list(words[: len(name.split())]) == name.split()), "")
