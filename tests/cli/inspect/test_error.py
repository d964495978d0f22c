"""``precast error``: an entry of the page, by its code or its class."""

from __future__ import annotations

import json

import pytest

from precast.cli import main
from precast.loader.command_line.error_page import entries


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    _run(["error", *words])
    return capsys.readouterr().out


def _run(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.run(words)
    assert not ended.value.code


@pytest.mark.parametrize("word", ["PCL07", "pcl07", "VariantNotFound", "variantnotfound"])
def test_an_entry_by_its_code_or_class(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, word)
    assert text.startswith("PCL07 VariantNotFound\n\n")
    assert "    no variant fits\n" in text and "\nWhat to do: Build it with those lines." in text
    assert "`" not in text and "**" not in text and "](" not in text


def test_an_entry_whose_message_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "PCB15").endswith(": build again\n\nWhat to do: what the message ends with.\n")


def test_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = printed(capsys).splitlines()
    assert head.split() == ["code", "error", "meaning"]
    assert [row.split()[:2] for row in rows] == [[entry.code, entry.name] for entry in entries()]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    one = json.loads(printed(capsys, "PCB09", "--json"))
    assert (one["name"], one["module"]) == ("OutputError", "precast.build.errors")
    assert "`" not in one["todo"] and one["message"].endswith("choose an empty or a new folder")
    assert [each["code"] for each in json.loads(printed(capsys, "--json"))] == [entry.code for entry in entries()]


@pytest.mark.parametrize(
    ("word", "near"), [("PCL077", "PCL07"), ("VariantNotFond", "VariantNotFound"), ("pcl77", "PCL17")]
)
def test_one_that_is_none(word: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.run(["error", word])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and f"did you mean '{near}'?" in said and "Name none to list all codes" in said
