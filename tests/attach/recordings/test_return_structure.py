"""What compile functions return: written down at the build, and the same again around a cache's kernel."""

from __future__ import annotations

import os
import subprocess  # noqa: F401 - attacks name it as an attribute of this module
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from precast.attach.attachment import Attachment
from precast.attach.library import Library
from precast.attach.recordings.return_structure import parse_structure, rebuilt, structure_of
from precast.loader.errors import FormatError

PACKAGE = "tests"
LIBRARY = Library(name="one", distribution="zstandard", package="zstandard", seams=())


class Plan(NamedTuple):
    kernel: Any
    blocks: Any


@pytest.mark.parametrize(
    "around",
    [
        lambda k: (k, 8),
        lambda k: [k, None, 1.5],
        lambda k: Plan(k, 4),
        lambda k: (3, (k, "$x"), {"tile": (64, 8)}),
        lambda k: (k, k),
        lambda k: {"kernel": k, 1: [k]},
    ],
)
def test_a_structure_comes_back_around_another_kernel(around: Any) -> None:
    built, served = object(), object()
    form, objects = structure_of(around(built), [built])
    assert objects == (built,)
    made = rebuilt(parse_structure(form), [served], PACKAGE)
    assert made == around(served)
    assert type(made) is type(around(served))


def test_the_object_itself_needs_no_structure() -> None:
    compiled = object()
    assert structure_of(compiled, [object(), compiled]) == (None, (compiled,))


@pytest.mark.parametrize(
    "around", [lambda k: lambda x: k(x), lambda k: (k, object()), lambda k: {"k": lambda: k}, lambda k: (8,)]
)
def test_what_has_no_plain_form_is_wrapped(around: Any) -> None:
    compiled, other = object(), object()
    assert structure_of(around(compiled), [compiled, other]) == ("wrapped", (compiled, other))


def test_several_objects_come_back_in_their_places() -> None:
    one, two, three, helper = (object() for _ in range(4))
    form, objects = structure_of(Plan((three, one, 8), [two, three]), [one, helper, two, three])
    assert objects == (three, one, two)
    assert rebuilt(parse_structure(form), ["a", "b", "c"], PACKAGE) == Plan(("a", "b", 8), ["c", "a"])


@pytest.mark.parametrize(
    "form",
    [
        ["$made:other"],
        [["$made:kernel"], ["$made:kernel", 1]],
        ["$made:kernel", -1],
        ["$made:kernel", True],
        ["$made:kernel", "0"],
        ["$made:kernel", 0, 0],
        [f"$namedtuple:{PACKAGE}.no_such:Plan", 1],
        [f"$namedtuple:{__name__}:no_such", 1],
        [f"$namedtuple:{__name__}:Plan", 1],
        ["$tensor", "float32", [1], [1], False],
    ],
)
def test_a_structure_that_cannot_be_made_again_is_refused(form: Any) -> None:
    with pytest.raises(FormatError, match="rebuild the cache"):
        rebuilt(form, [object()], PACKAGE)


EVIL = [
    ["$namedtuple:evil_outside:Plan", 1],
    ["$dataclass:evil_outside:Plan", ["n", 1]],
    [["$made:kernel"], "$ref:evil_outside:Plan"],
    ["$list", "$enum:evil_outside:Plan.A"],
    ["$dict", ["k", ["$namedtuple:evil_outside:Plan"]]],
    [f"$namedtuple:{PACKAGE}x.evil:Plan", 1],
    ["$namedtuple:precast.loader.errors:PrecastError", "x"],
    ["$namedtuple:os:system", "touch evil_outside_ran"],
    [f"$namedtuple:{__name__}:os.system", "touch evil_outside_ran"],  # a module that the package imports
    [f"$dataclass:{__name__}:subprocess.Popen", ["args", "touch evil_outside_ran"]],
    [f"$namedtuple:{__name__}:calls_anything", "touch evil_outside_ran"],  # a function of the package
    [f"$dataclass:{__name__}:calls_anything", ["command", "touch evil_outside_ran"]],
    [f"$ref:{__name__}:os"],
    [f"$ref:{__name__}:os.system"],
    ["$torch:load"],
    ["$torch:classes"],
    ["$cutlass:sys"],
]


def calls_anything(command: str) -> None:
    os.system(command)


@pytest.mark.parametrize("form", EVIL)
def test_a_cache_cannot_have_a_module_imported_or_a_function_called(
    form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_outside.py").write_text("open('evil_outside_ran', 'w').close()\n")
    (tmp_path / f"{PACKAGE}x").mkdir()
    (tmp_path / f"{PACKAGE}x" / "evil.py").write_text("open('evil_outside_ran', 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match="rebuild the cache"):
        rebuilt(form, [object()], PACKAGE)
    assert not (tmp_path / "evil_outside_ran").exists()
    assert not {"evil_outside", f"{PACKAGE}x.evil"} & sys.modules.keys()


@pytest.mark.parametrize("form", ["other", 8, {"a": 1}, True])
def test_a_form_is_checked_when_it_is_read(form: Any) -> None:
    with pytest.raises(FormatError, match="not what a compile function returned"):
        parse_structure(form)


def test_a_skipped_kernel_has_the_structure_that_the_library_expects() -> None:
    attachment = Attachment("record", missing="skip")
    kernel, width = attachment.obtain(LIBRARY, "zstandard:f", {"n": 1}, fallback=lambda answers: (answers.next(), 8))
    assert kernel(1, 2, three=3) is None
    assert width == 8


def test_a_function_that_fails_around_a_skipped_kernel_does_not_end_a_recording() -> None:
    def own(answers: Any) -> Any:
        return answers.next().registers

    attachment = Attachment("record", missing="skip")
    assert attachment.obtain(LIBRARY, "zstandard:f", {"n": 1}, fallback=own)() is None
    assert [one.config["n"] for one in attachment.recorder.recorded] == [1]
