"""The page of symptoms quotes what the code says."""

from __future__ import annotations

import re

import pytest

from precast import loader
from tests.helpers.pages import text_of
from tests.helpers.source_tree import ROOT

SYMPTOMS = re.findall(r"^\| \*\*(.+?)\*\*", text_of("docs/troubleshooting.md"), re.MULTILINE)
QUOTED = [found[1] for symptom in SYMPTOMS if (found := re.search(r"`([^`]+)`", symptom))]
VALUES = re.compile(r"\d+(?:\.\d+)*|sm_\w+|x86_64|aarch64|multiprocessor_count|apache-tvm-ffi")


def test_there_are_symptoms_of_each_kind() -> None:
    assert len(SYMPTOMS) > 20 and "VariantNotFound" in QUOTED


@pytest.mark.parametrize("message", [text for text in QUOTED if " " in text and not text.startswith("No module")])
def test_a_refusal_is_worded_as_the_loader_words_it(message: str) -> None:
    source = "".join((ROOT / "loader" / "resolve" / f"{name}.py").read_text() for name in ("rules", "assumptions"))
    parts = [part.strip() for part in VALUES.split(message.replace("this one's is", "\0this one's is"))]
    words = [part for text in parts for part in text.split("\0") if len(part) > 3]
    assert words and [part for part in words if part.strip(", ") not in source] == []


@pytest.mark.parametrize("name", [text for text in QUOTED if re.fullmatch(r"[A-Z]\w+", text)])
def test_an_error_is_one_of_the_loaders(name: str) -> None:
    assert name in loader.__all__
