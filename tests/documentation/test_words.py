"""The check of words: what it reports, what it leaves alone, and that this repository passes it."""

from __future__ import annotations

import doctest
import importlib
from types import ModuleType

import pytest

from tests.helpers.source_tree import ROOT


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, as a module."""
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return importlib.import_module("words")


def reported(words: ModuleType, page: str = "", code: str = "") -> list[tuple[int, str]]:
    uses = words.in_page("a.md", page) if page else words.in_code("a.py", code)
    return [(use.line, use.text) for use in uses]


def test_the_examples_run(words: ModuleType) -> None:
    assert doctest.testmod(words).failed == 0


@pytest.mark.parametrize(
    "text",
    [
        "The log is told of it.",
        "A kernel asks its GPU.",
        "It is no error.",
        "It\nis\nno file.",
        "It wins. Of two times, the lesser counts.",
        "1 ops",
        "a target that CUDA has not, such as this",
    ],
)
def test_a_banned_phrase_is_reported(words: ModuleType, text: str) -> None:
    assert len(reported(words, page=text)) == 1
    assert len(reported(words, code=f'def f() -> None:\n    """{text}"""\n')) == 1


@pytest.mark.parametrize(
    "text",
    [
        "There is no cache, and it is no longer needed.",
        "11 ops",
        "One of two",
        "`KK/KEY.asked`, `told`",
        "```\nit is told\n```\n",
        "a target that CUDA has not removed",
        "is told <!-- words: allow -->",
    ],
)
def test_other_phrases_are_left_alone(words: ModuleType, text: str) -> None:
    assert reported(words, page=text) == []


def test_comments_and_names_of_code_are_checked_and_keys_are_not(words: ModuleType) -> None:
    code = "found = {'asked': 1}  # what it asks for\n\n\ndef told(place: int) -> None:\n    place.known = 1\n"
    assert sorted(reported(words, code=code)) == [
        (1, "asks"), (1, "found"), (4, "place"), (4, "told"), (5, "known"),
    ]  # fmt: skip
    assert reported(words, code="found = 1  # words: allow\n") == []


def test_the_table_of_words_is_checked(words: ModuleType) -> None:
    page = words.CONTRIBUTING.read_text()
    assert words.with_table(page) == page
    assert words.with_table(page.replace("| 1 op |", "| one op |")) == page
