"""An error of an author's code has its message and its place; one of the machinery has no place."""

from __future__ import annotations

from precast.kernels.authoring.errors import described
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError


def bare() -> None:
    assert len(__name__) == 0


def reference(values: dict[str, int]) -> int:
    return values["bais"]


def test_an_error_has_the_place_in_the_authors_file() -> None:
    try:
        bare()
    except AssertionError as error:
        error.args = ()  # pytest writes a message
        text = described(error)
    assert text.startswith("AssertionError without a message (test_raised.py:") and ": assert len" in text
    try:
        reference({})
    except KeyError as error:
        text = described(error)
    assert text.startswith("KeyError: 'bais' (test_raised.py:") and text.endswith(': return values["bais"])')


def test_an_error_that_only_our_code_raised_has_no_place() -> None:
    assert described(ValueError("three")) == "ValueError: three"
    try:
        Target.parse("nonsense")
    except TargetError as error:
        assert error.__traceback__ is not None
        assert described(error.with_traceback(error.__traceback__.tb_next)) == f"TargetError: {error}"
