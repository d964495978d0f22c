"""Errors of an author's code as text: one without a message has its place."""

from __future__ import annotations

from precast.kernels.authoring.verification.raised import described


def bare() -> None:
    assert len(__name__) == 0


def test_an_error_without_a_message_has_its_place() -> None:
    try:
        bare()
    except AssertionError as error:
        error.args = ()  # pytest writes a message
        text = described(error)
    assert text.startswith("AssertionError in bare, test_raised.py line ") and "assert len(__name__)" in text


def test_a_message_is_kept() -> None:
    assert described(ValueError("three")) == "ValueError: three"
