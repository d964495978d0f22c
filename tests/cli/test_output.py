"""Tables, sizes and JSON."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from precast.cli.shared.output import PARTS, as_json, coloured, elide, size, table
from tests.helpers.caches import Native, demo
from tests.helpers.terminal import on_terminal

HEAD = ("key", "stored", "config")
CONFIG = "{dtype: bfloat16, layout: row, threads: 128, stages: 4}"
ROWS = [("0123456789ab", 512, CONFIG), ("ba9876543210", 73216, "{}")]


def test_without_a_terminal_a_row_is_one_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert table(HEAD, ROWS).splitlines() == [
        "key           stored  config",
        f"0123456789ab     512  {CONFIG}",
        "ba9876543210   73216  {}",
    ]


def test_a_narrow_terminal_gets_cells_of_several_lines() -> None:
    assert table(HEAD, ROWS, width=50).splitlines() == [
        "key           stored  config",
        "0123456789ab     512  {dtype: bfloat16, layout:",
        "                      row, threads: 128, stages:",
        "                      4}",
        "ba9876543210   73216  {}",
    ]


def test_a_word_that_is_too_long_keeps_its_ends() -> None:
    path = "/a/very/long/path/of/a/manifest/in/a/monorepo/kernels.yaml:12:5"
    (_, line) = table(("op", "asked for at"), [("scale", path)], width=40).splitlines()
    assert len(line) <= 40 and line.startswith("scale  /a/very") and line.endswith("yaml:12:5") and "…" in line


def test_more_columns_than_fit_become_a_block_a_row() -> None:
    head = [f"column{number}" for number in range(12)]
    text = table(head, [range(12), range(12)], width=60)
    assert text.splitlines()[:2] == ["column0:  0", "column1:  1"]
    assert len(text.split("\n\n")) == 2


@pytest.mark.parametrize("width", [20, 33, 47, 60, 79])
def test_no_table_is_wider_than_its_terminal(width: int) -> None:
    assert max(map(len, table(HEAD, ROWS, width=width).splitlines())) <= width


@pytest.mark.parametrize(("columns", "env"), [(80, {}), (200, {"COLUMNS": "60"})])
def test_a_command_fits_its_table_to_the_terminal(tmp_path: Path, columns: int, env: dict[str, str]) -> None:
    cache = demo(Native(tmp_path)).write(tmp_path / "demo")
    done = on_terminal([sys.executable, "-m", "precast.cli.main", "list", cache], columns=columns, env=env)
    width = int(env.get("COLUMNS", columns))
    assert done.status == 0 and max(map(len, done.lines)) <= width
    assert "threads: 128}" in done.frames[-1] and "{dtype:" in done.frames[-1]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(["op", "target"], []) == "op  target"


@pytest.mark.parametrize("width", range(5, 12))
def test_an_elided_text_is_exactly_as_wide_as_it_may_be(width: int) -> None:
    assert len(elide("0123456789abcdef", width)) == width
    assert elide("01234", width) == "01234"


def test_json_refuses_what_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_json({"seconds": float("nan")})


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (10**10, "10.0 GB")])
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_an_extra_names_the_folders_of_the_distributions_that_it_brings() -> None:
    """Else pip, told to install it from a checkout, looks for these on an index."""
    brought: dict[str, set[str]] = {}
    for requirement in metadata("precast").get_all("Requires-Dist") or ():
        if match := re.fullmatch(r"precast(?:-(\w+)==.*|\[([\w,-]+)\]); extra == '([\w-]+)'", requirement):
            brought.setdefault(match[3], set()).update(filter(None, (match[1], *(match[2] or "").split(","))))
    for _ in brought:  # an extra may bring another
        brought = {extra: parts.union(*(brought.get(part, ()) for part in parts)) for extra, parts in brought.items()}
    alone = {"attach", "emulator", "measure", "native", "publish"}
    folders = {extra: parts & alone for extra, parts in brought.items()}
    own = ("dev", "test")
    assert {e: f for e, f in folders.items() if f and e not in own} == {e: set(f) for e, f in PARTS.items()}


def test_a_terminal_shows_heads_and_results_in_colour_and_a_pipe_does_not(tmp_path: Path) -> None:
    cache = demo(Native(tmp_path)).write(tmp_path / "demo")
    words = [sys.executable, "-m", "precast.cli.main", "list", str(cache)]
    shown = on_terminal(words, columns=200).written
    assert re.search(r"\x1b\[1mkey +op +target +kind +stored +config\x1b\[0m", shown)
    assert re.search(r"^\x1b\[36m[0-9a-f]{12}\x1b\[0m  ", shown, re.MULTILINE)
    assert "\x1b" not in on_terminal(words, env={"NO_COLOR": "1"}).written
    assert "\x1b" not in subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("0 failures, 2 warnings", "1;32"), ("1 failure, 0 warnings", "1;31"), ("demo: 8 variants, 3 skipped", "1;33"),
        ("8 of 8 artifacts present", "1;32"), ("8 of 12 artifacts present", "1;31"), ("mine.scaled  (m:scaled)", "1"),
        ("missing: x", "1;31"), ("the same, byte for byte: 8 artifacts", "1;32"), ("cache: bytes stored", "1;33"),
        ("demo: 8 variants, 0 skipped", ""), ("scaled.py", ""), ("op      target  variants", "1"),
    ],
)  # fmt: skip
def test_the_lines_that_decide_have_colours(monkeypatch: pytest.MonkeyPatch, line: str, code: str) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = coloured(line, [("op", "target", "variants")])
    assert re.findall(r"\x1b\[([1-9;]+)m", shown)[:1] == ([code] if code else [])
