"""What compile functions return: written down at the build, and the same again around a cache's kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from precast.loader.attach.attachment import Attachment
from precast.loader.attach.library import Library
from precast.loader.attach.returned import parse_structure, rebuilt, structure_of
from precast.loader.errors import FormatError

LIBRARY = Library(name="one", distribution="zstandard", package="zstandard", seams=())


class Plan(NamedTuple):
    kernel: Any
    blocks: int


@pytest.mark.parametrize(
    "around",
    [
        lambda k: (k, 8),
        lambda k: [k, None, 1.5],
        lambda k: Plan(k, 4),
        lambda k: (3, (k, "$x"), {"tile": (64, 8)}),
        lambda k: (k, k),
    ],
)
def test_a_structure_comes_back_around_another_kernel(around: Any) -> None:
    built, served = object(), object()
    form = structure_of(around(built), built)
    assert rebuilt(parse_structure(form), served) == around(served)
    assert type(rebuilt(form, served)) is type(around(served))


def test_the_object_itself_needs_no_structure() -> None:
    compiled = object()
    assert structure_of(compiled, compiled) is None


@pytest.mark.parametrize(
    "around", [lambda k: lambda x: k(x), lambda k: (k, object()), lambda k: {"k": k}, lambda k: (8,)]
)
def test_what_has_no_plain_form_is_wrapped(around: Any) -> None:
    compiled = object()
    assert structure_of(around(compiled), compiled) == "wrapped"


@pytest.mark.parametrize("form", [["$made:other"], ["$namedtuple:no.such:Plan", 1], ["$namedtuple:json:no_such", 1]])
def test_a_structure_that_cannot_be_made_again_is_refused(form: Any) -> None:
    with pytest.raises(FormatError, match="build the cache anew"):
        rebuilt(form, object())


@pytest.mark.parametrize("form", ["other", 8, {"a": 1}, True])
def test_a_form_is_checked_when_it_is_read(form: Any) -> None:
    with pytest.raises(FormatError, match="not what a compile function returned"):
        parse_structure(form)


def test_a_skipped_kernel_has_the_structure_that_the_library_expects() -> None:
    attachment = Attachment("record", missing="skip")
    kernel, width = attachment.obtain(LIBRARY, "zstandard:f", {"n": 1}, own=lambda nothing: (nothing, 8))
    assert kernel(1, 2, three=3) is None
    assert width == 8


def test_a_function_that_fails_around_a_skipped_kernel_does_not_end_a_recording() -> None:
    def own(nothing: Any) -> Any:
        return nothing.registers

    attachment = Attachment("record", missing="skip")
    assert attachment.obtain(LIBRARY, "zstandard:f", {"n": 1}, own=own)() is None
    assert [one.config["n"] for one in attachment.recorder.recorded] == [1]
