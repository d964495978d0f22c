"""Texts with escape codes, which would move the cursor of a terminal, clear it, or write a false line.

They are printed as escapes, by every command that prints a part of a cache, and in errors.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.errors import FetchError
from tests.helpers.attacks import edit, forge_op
from tests.helpers.builds import precast
from tests.helpers.loader_fixtures import Use

EVIL = "\x1b[2J\x1b]0;owned\x07\r\u202e\x9b31mtext\nkey: false"


@pytest.fixture
def evil(path: Path) -> Path:
    """The cache, with such a text in every place that takes any."""

    def change(op: Any) -> None:
        op["doc"] = EVIL
        for row in op["artifacts"]:
            row["provenance"] = {EVIL: EVIL, "inputs": {"read": {"file:search/owned.json": EVIL}}}
            row["evidence"] = [{"check": EVIL, EVIL: EVIL}]
            row["resources"] = [{"kernel": EVIL, "registers": 1, "shared": 1, "stack": 1, "local": 1}]
            for argument in row["signature"]["arguments"]:
                argument["name"] = argument["name"] + EVIL

    forge_op(path, "scale", change)
    edit(path / "index.json", lambda index: index["toolchain"].update({"apache-tvm-ffi": f"9.9{EVIL}", EVIL: EVIL}))
    return path


def clean(text: str) -> None:
    assert text and "owned" in text, "the text is printed"
    assert all(c.isprintable() or c == "\n" for c in text), repr(text)
    assert not any(line.startswith("key: false") for line in text.splitlines()), "no false line"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "diff", "diff --inputs", "show --inputs"])
def test_what_commands_print(evil: Path, tmp_path: Path, command: str) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(evil, plain)
    forge_op(plain, "scale", _cleaned)
    edit(plain / "index.json", lambda index: index["toolchain"].pop(EVIL))
    name, *options = command.split()
    done = precast(tmp_path / "store", name, *([plain, evil] if name == "diff" else [evil, "scale"]), *options)
    clean(done.stdout)


def _cleaned(op: Any) -> None:
    op["doc"] = ""
    for row in op["artifacts"]:
        row.update(provenance={}, evidence=[], resources=[])


@pytest.mark.parametrize(
    "ask",
    [
        lambda: str(loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")),
        lambda: repr(loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")),
        lambda: "owned" + str(loader.variants("scale")),
        lambda: str(loader.variants("scale")[0].signature),
    ],
)
def test_what_the_loader_prints(use: Use, evil: Path, ask: Callable[[], str]) -> None:
    use(evil)
    clean(ask())


def test_an_error(use: Use, evil: Path) -> None:
    use(evil)
    with pytest.raises(loader.VariantNotFound) as caught:
        loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    clean(str(caught.value))


def test_the_words_of_a_server() -> None:
    clean(str(FetchError(f"the server answered {EVIL}".replace("\n", " "))))
