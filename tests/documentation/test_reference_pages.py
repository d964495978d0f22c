"""The pages of docs/reference that are written from the code are what it says today."""

from __future__ import annotations

import doctest
import importlib
from types import ModuleType

import pytest

from precast.cli import main
from tests.helpers.pages import text_of
from tests.helpers.source_tree import ROOT

SITE = ROOT / "docs" / "site"
BY_HAND = {"attach.md", "emulation.md"}
WRITERS = ("cli_page", "page_parts", "python_page", "schema_pages")


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program of ``make reference``."""
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module("write_reference")


def test_every_file_is_what_the_code_says(writer: ModuleType) -> None:
    stale = [str(path) for path, text in writer.files() if path.read_text(encoding="utf-8") != text]
    assert not stale, "write them again: make reference"


def test_no_other_page_is_there(writer: ModuleType) -> None:
    folder = ROOT / "docs" / "reference"
    written = {path for path, _ in writer.files()}
    assert set(folder.rglob("*.md")) == {
        *(path for path in written if path.suffix == ".md"),
        *(folder / n for n in BY_HAND),
    }


def test_a_function_has_a_page_whose_name_is_its_largest_heading(writer: ModuleType) -> None:
    text = text_of("docs/reference/python/loader.get.md")
    assert text.startswith("# `loader.get`\n\n```python\ndef get(\n") and "\n## Parameters\n" in text
    assert "[`get`](python/loader.get.md)" in text_of("docs/reference/python.md")


def test_every_option_of_every_command_is_there() -> None:
    page = text_of("docs/reference/cli.md")
    of_all = page.partition("\n## ")[0]
    for name in main.commands():
        section = page.partition(f"## `precast {name}`\n")[2].partition("\n## ")[0]
        known = {option for p in main.load(name).params if p.param_type_name == "option" for option in p.opts}
        assert {option for option in known if option not in section + of_all} == set(), name


@pytest.mark.parametrize("name", WRITERS)
def test_the_examples_of_the_writers_run(name: str, writer: ModuleType) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
