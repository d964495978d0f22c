"""The pages of the documentation, and the code blocks in them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path

from precast.cli import main
from tests.helpers.source_tree import ROOT

PACKAGES = tuple(f"{name}/README.md" for name in ("attach", "emulator", "loader", "measure", "native", "publish"))
"""The pages of packages, which are shown where these are published, and not on the site."""
PAGES = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (
        *sorted(ROOT.glob("*.md")),
        *(ROOT / page for page in PACKAGES),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def text_of(page: str) -> str:
    """The text of a page, or of one part of it: ``docs/ci.md#Shards``."""
    path, _, title = page.partition("#")
    text = (ROOT / path).read_text()
    if not title:
        return text
    part = text.partition(f"\n## {title}\n")[2]
    assert part, f"{path} has no part {title!r}"
    return part.partition("\n## ")[0]


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a language, in the order of the page."""
    return [body for name, body in _BLOCK.findall(text_of(page)) if name == language]


def prose(page: str) -> str:
    """The page without its code blocks."""
    return _BLOCK.sub("", text_of(page))


def quoted(page: str) -> set[str]:
    """What stands between backticks in a page's prose."""
    return set(re.findall(r"`([^`\n]+)`", prose(page)))


def commands(page: str) -> list[str]:
    """Every command line of precast: whole lines of shell blocks, without their comments, and what prose quotes."""
    lines = [line.partition(" #")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    shown = [line for line in lines if line.startswith("precast ")]
    return shown + sorted(text for text in quoted(page) if re.match(r"precast [a-z]", text))


def command_of(words: Sequence[str]) -> str:
    """The command that a command line starts with, behind ``precast``; empty if it starts with none.

    >>> command_of(["tune", "apply", "cache", "times.json"]), command_of(["wheel", "cache"])
    ('tune apply', 'wheel')
    """
    return next((name for name in main.commands() if list(words[: len(name.split())]) == name.split()), "")


def beside(page: str) -> Path:
    """The folder that links of a page are relative to."""
    return (ROOT / page).parent


def examples(name: str) -> tuple[str, ...]:
    """The example lines of a command, at the end of its help."""
    lines: tuple[str, ...] = importlib.import_module(main.module_of(name)).EXAMPLES
    return lines
