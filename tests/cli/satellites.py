"""Distributions beside the one that is tested: a test that needs another one skips itself, and says which."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import pytest

from precast.cli import main
from tests.helpers.pages import examples


def need_command(words: str) -> None:
    """Skip the test where the distribution that has a command is not installed."""
    if not is_installed(words):
        pytest.skip(_reason(words))


def each_example(parts: Mapping[str, slice]) -> list[object]:
    """Parts of the examples of commands; a test that is skipped for a command that is not installed."""
    each: list[object] = []
    for words, part in parts.items():
        if is_installed(words):
            each += examples(words)[part]
        else:
            each.append(pytest.param("", id=words, marks=pytest.mark.skip(reason=_reason(words))))
    return each


def _reason(words: str) -> str:
    distribution = "-".join(main.SATELLITES[words].split(".")[:2])
    return f"{distribution}, which has 'precast {words}', is not installed"


def is_installed(words: str) -> bool:
    """Whether the distribution that has a command is installed."""
    module = main.SATELLITES.get(words)
    return module is None or find_spec(".".join(module.split(".")[:2])) is not None


def installed_commands() -> list[str]:
    """The commands of the distributions that are installed."""
    return [words for words in main.commands() if is_installed(words)]
