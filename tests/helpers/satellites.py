"""Distributions beside the one that is tested: a test that needs another one skips itself, and says which."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from precast.cli import main


def need_command(words: str) -> None:
    """Skip the test where the distribution that has a command is not installed."""
    if not is_installed(words):
        package = ".".join(main.SATELLITES[words].split(".")[:2])
        pytest.skip(f"{package.replace('.', '-')}, which has 'precast {words}', is not installed")


def is_installed(words: str) -> bool:
    """Whether the distribution that has a command is installed."""
    module = main.SATELLITES.get(words)
    return module is None or find_spec(".".join(module.split(".")[:2])) is not None


def installed_commands() -> list[str]:
    """The commands of the distributions that are installed."""
    return [words for words in main.commands() if is_installed(words)]
