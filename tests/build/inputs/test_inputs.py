"""Inputs as they are read from a store, and the names of files."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import MOST, Inputs, is_name, parse_names
from precast.build.inputs.roots import Roots
from precast.loader.errors import FormatError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
NAMES = st.sampled_from(["python", "file:", "folder:/", "program:a", "distribution:a"])


@given(JSON | st.dictionaries(NAMES | st.text(), JSON))
def test_any_json_is_inputs_or_refused(value: Any) -> None:
    with contextlib.suppress(FormatError):
        inputs = Inputs.parse(value)
        assert Inputs.parse(json.loads(json.dumps(inputs.to_json()))) == inputs


@given(JSON | st.lists(NAMES | st.text()))
def test_any_json_is_names_or_refused(value: Any) -> None:
    with contextlib.suppress(FormatError):
        assert list(parse_names(value)) == value
        assert all(is_name(name) for name in value)


WRONG_NAMES = [
    "", "clock", "file", "file:", "file:relative", "file:search/../x", "file:search//x", "file:search/./x",
    "file:/proc/kmsg", "file:/dev/zero", "file:/sys/x", "folder:/proc", "file:searchx/y", "file:search/a\0b",
    "distribution:A B", "distribution:", "module:a", "variable:A", "program:", "program:../sh",
    "file:/" + "a" * 5000, "file:/\ud800", "python:3", "variables",
]  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_name_of_no_input_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="is not the name of an input"):
        parse_names([name])
    with pytest.raises(FormatError, match="is not the name of an input"):
        InputAnswers(Roots([], [])).answer(name)


def test_limits() -> None:
    with pytest.raises(FormatError, match="more than the"):
        parse_names(["python"] * (MOST + 1))
    with pytest.raises(FormatError, match="a value must be"):
        Inputs.parse({"python": "a" * 5000})
    with pytest.raises(FormatError, match="a value must be"):
        Inputs.parse({"python": 3})


def test_roots_name_files_by_the_innermost_folder(tmp_path: Path) -> None:
    site = tmp_path / "home/project/venv/site-packages"
    for folder in (site, tmp_path / "tools", tmp_path / "more"):
        folder.mkdir(parents=True)
    (site / "b.py").touch()
    roots = Roots(
        [tmp_path / "home/project", tmp_path / "second"],
        [*sys.path, str(site), str(tmp_path / "tools"), str(tmp_path / "tools"), str(tmp_path / "more")],
        str(tmp_path / "home"),
    )
    expected = {
        "home/project/a.py": "search/a.py",
        "home/project/venv/site-packages/b.py": "site/b.py",
        "home/rc": "~/rc",
        "home": "~",
        "homes/rc": str(tmp_path / "homes/rc"),
        "second/a.py": "search2/a.py",
    }
    for path, name in expected.items():
        assert roots.portable(str(tmp_path / path)) == name
        assert roots.path_of(name) == str(tmp_path / path)
    tools, more = (roots.portable(str(tmp_path / name)) for name in ("tools", "more"))
    assert int(more.removeprefix("path")) == int(tools.removeprefix("path") or 1) + 1
    assert roots.path_of("search9/a") is None


def test_an_input_that_is_gone_has_changed() -> None:
    inputs = Inputs.of({"program:git": "1", "program:sh": None})
    assert inputs.changed({"program:git": "1"}) == ()
    assert inputs.changed({}) == ("program:git",)


def test_what_the_author_may_edit_is_told_apart() -> None:
    mine = {"file:search/mine.py": "1", "folder:search/tiles": "2"}
    others = {"distribution:numpy": "2.0 6", "program:git": "7", "python": "CPython 3.12.1"}
    first, second = Inputs.of({**mine, **others}).split()
    assert (set(first.names), set(second.names)) == (set(mine), set(others))
