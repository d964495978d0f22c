"""Inputs and observations as they are read: from a process that runs an author's code, or from a store."""

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
from precast.build.inputs.observation import Observation
from precast.build.inputs.roots import Roots
from precast.build.ipc.child_inputs import answers_here
from precast.loader.errors import FormatError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
NAMES = st.sampled_from(["python", "variables", "file:", "folder:/", "module:a", "variable:A", "library:x"])
WORDS = st.sampled_from(["asked", "stamps", "digests", "modules", "missing", "libraries", "path", "complete"])
ROWS = st.lists(JSON | st.lists(st.sampled_from(["file", "/a", "x", 1, None, True, -1, 2**70, "\0", "\ud800"])))
KEPT: dict[str, Any] = {
    "asked": [], "stamps": {}, "digests": {}, "modules": [], "missing": [], "libraries": [], "path": [],
}  # fmt: skip


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


@given(
    JSON | st.dictionaries(WORDS | st.text(), JSON) | st.dictionaries(WORDS, ROWS | st.dictionaries(st.text(), ROWS))
)
def test_any_json_is_an_observation_or_refused(value: Any) -> None:
    with contextlib.suppress(FormatError):
        Observation.parse(value)
    with contextlib.suppress(FormatError):
        Observation.parse({**KEPT, "complete": True, **(value if isinstance(value, dict) else {})})


WRONG_NAMES = [
    "", "clock", "file", "file:", "file:relative", "file:search/../x", "file:search//x", "file:search/./x",
    "file:/proc/kmsg", "file:/dev/zero", "file:/sys/x", "folder:/proc", "file:searchx/y", "file:search/a\0b",
    "distribution:A B", "distribution:", "module:", "module:a/b", "variable:A=B", "library:/lib/x.so", "program:../sh",
    "file:/" + "a" * 5000, "file:/\ud800", "python:3", "variables:*",
]  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_name_of_no_input_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="is not the name of an input"):
        parse_names([name])
    with pytest.raises(FormatError, match="is not the name of an input"):
        InputAnswers(Roots([], [], {})).answer(name)


def test_limits() -> None:
    with pytest.raises(FormatError, match="more than the"):
        parse_names(["python"] * (MOST + 1))
    with pytest.raises(FormatError, match="a value must be"):
        Inputs.parse({"python": "a" * 5000})
    with pytest.raises(FormatError, match="a value must be"):
        Inputs.parse({"python": 3})


def test_roots_name_files_by_the_innermost_folder(tmp_path: Path) -> None:
    site = tmp_path / "home/project/venv/site-packages"
    roots = Roots(
        [tmp_path / "home/project", tmp_path / "second"],
        [*sys.path, str(site), str(tmp_path / "tools"), str(tmp_path / "tools"), str(tmp_path / "more")],
        {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "second/temporary")},
    )
    expected = {
        "home/project/a.py": "search/a.py",
        "home/project/venv/site-packages/b.py": roots.portable(str(site)) + "/b.py",
        "home/rc": "~/rc",
        "home": "~",
        "homes/rc": str(tmp_path / "homes/rc"),
        "second/a.py": "search2/a.py",
        "second/temporary/x": str(tmp_path / "second/temporary/x"),
    }
    for path, name in expected.items():
        assert roots.portable(str(tmp_path / path)) == name
        assert roots.path_of(name) == str(tmp_path / path)
    tools, more = (roots.portable(str(tmp_path / name)) for name in ("tools", "more"))
    assert int(more.removeprefix("path")) == int(tools.removeprefix("path") or 1) + 1
    assert roots.path_of("search9/a") is None


def test_an_input_that_is_gone_has_changed() -> None:
    inputs = Inputs.of({"variable:TILE": "1", "variable:OTHER": None})
    assert inputs.changed({"variable:TILE": "1"}) == ()
    assert inputs.changed({}) == ("variable:TILE",)


def test_the_value_of_a_variable_is_not_in_its_answer() -> None:
    """Answers are kept where others may read them."""
    answers = InputAnswers(Roots([], [], {"TOKEN": "secret"}))
    assert "secret" not in str(answers.answers(["variable:TOKEN", "variables"]))


def test_what_the_author_may_edit_is_told_apart() -> None:
    mine = {"module:mine": "file:search/mine.py 1", "file:search/tiles.json": "2", "variable:TILE": "3"}
    others = {
        "module:precast.kernels.norm": "file:path/precast/kernels/norm.py 4",
        "file:site/numpy/data": "5",
        "distribution:numpy": "2.0 6",
        "python": "CPython 3.12.1",
    }
    first, second = Inputs.of({**mine, **others}).split("mine")
    assert (set(first.names), set(second.names)) == (set(mine), set(others))


def test_a_finder_that_adds_to_the_path_does_not_change_the_next_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of setuptools does for ``distutils``: what it brings along was found at the build, not at the check."""
    (tmp_path / "brought_along.py").write_text("")

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object, target: object) -> None:
            if name == "old_tools":
                sys.path.append(str(tmp_path))

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    names = ("module:brought_along", "module:old_tools")
    build, check = (answers_here([]).answers(names) for _ in range(2))
    assert build == check == dict.fromkeys(names)
