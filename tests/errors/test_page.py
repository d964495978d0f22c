"""docs/errors.md has an entry for each code, whose message is what an example of it really raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.cli.shared.excerpt import error_text
from precast.emulator import EmulatorError
from precast.loader import session
from precast.loader.command_line.error_page import Entry, entries
from precast.loader.errors import PrecastError
from tests.helpers.caches import Native
from tests.helpers.errors import of_builder, of_loader
from tests.helpers.errors.stage import Stage
from tests.helpers.pages import text_of
from tests.helpers.source_tree import ROOT

EXAMPLES = {**of_loader.EXAMPLES, **of_builder.EXAMPLES}
PAGE = "docs/errors.md"
REASONS = ("PCL13", "PCB17")
"""Their messages are reasons inside others, which end with what to do."""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture
def stage(tmp_path: Path, native: Native, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    before = session.default
    yield Stage(tmp_path, native, monkeypatch)
    session.use(before)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.code)
def test_the_message_is_what_is_raised(entry: Entry, stage: Stage) -> None:
    with pytest.raises((PrecastError, EmulatorError)) as raised:
        EXAMPLES[entry.code](stage)
    assert isinstance(raised.value, (PrecastError, EmulatorError))
    kind = type(raised.value)
    assert (kind.code, kind.__name__, kind.__module__) == (entry.code, entry.name, entry.module)
    assert stage.plain(str(raised.value)) == entry.message
    printed = error_text(raised.value) if isinstance(raised.value, PrecastError) else str(raised.value)
    assert all(text.count("\n") < 39 and len(text) < 4000 for text in (str(raised.value), printed))
    assert getattr(raised.value, "__notes__", [entry.code])[0].startswith(entry.code)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.code)
def test_a_message_says_what_to_do(entry: Entry) -> None:
    """After a colon, a semicolon or a full stop, or as a suggestion. If the entry has more to do, it is a sentence."""
    if entry.code not in REASONS:
        assert re.search(r"[:;.?] \w|\?$|:\n", entry.message), entry.message
    assert len(entry.meaning) > 60 and entry.summary
    assert len(entry.todo) > 20 if entry.todo else entry.code not in REASONS


def test_there_is_an_example_for_each_entry() -> None:
    assert set(EXAMPLES) == {entry.code for entry in entries()}


def test_the_place_of_an_entry_is_its_code() -> None:
    """So that an address ends in #pcl07; and each code that a text leads to has such a place."""
    headings = re.findall(r"^### (.*)$", text_of(PAGE), re.MULTILINE)
    assert headings == [entry.code for entry in entries()] and len(set(headings)) == len(headings)
    assert {code.upper() for code in re.findall(r"\(#(\w+)\)", text_of(PAGE))} <= set(headings)


def test_every_status_of_libprecast_is_in_the_table() -> None:
    header = (ROOT / "native/include/precast.h").read_text()
    statuses = re.findall(r"^  (PRECAST_\w+) = \d+", header.partition("} precast_status;")[0], re.MULTILINE)
    assert re.findall(r"^\| `(PRECAST_\w+)` \|", text_of(PAGE), re.MULTILINE) == sorted(
        statuses[1:], key=text_of(PAGE).index
    )
