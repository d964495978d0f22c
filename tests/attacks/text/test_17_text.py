"""Texts that are no UTF-8, that are half a character, that would move a terminal's cursor or end a line in a log.

What is not UTF-8 is no JSON. What a message quotes of a file is quoted with its escapes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attacks import Refused, edit


@pytest.mark.parametrize("data", [b"\xff\xfe{}", b'{"a": "\xc3"}', b"\xef\xbb\xbf{}", b"", b"\0", b"{}\0", b"{} {}"])
def test_what_is_no_json(path: Path, refused: Refused, data: bytes) -> None:
    (path / "index.json").write_bytes(data)
    refused(path, "index.json")


@pytest.mark.parametrize("text", ["\x1b[2J\x1b[31mroot#", "a\nerror: all is well", "\r", "\ud800"])
def test_what_a_message_quotes(path: Path, refused: Refused, text: str) -> None:
    edit(path / "index.json", lambda index: index.update(name=text))
    error = refused(path, "is not a cache name")
    assert not set("\x1b\r\ud800") & set(str(error)) and "\nerror" not in str(error)
    edit(path / "index.json", lambda index: index.update({"name": "demo", text: 1}))
    error = refused(path, "unknown key")
    assert not set("\x1b\r\ud800") & set(str(error)) and "\nerror" not in str(error)
