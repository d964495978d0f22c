"""Errors of an author's code as text."""

from __future__ import annotations

from pathlib import PurePath
from traceback import extract_tb


def described(error: BaseException) -> str:
    """The type and the message of an error; where it was raised, if it has no message: a bare ``assert``.

    >>> described(ValueError("three is too many")), described(KeyError())
    ('ValueError: three is too many', 'KeyError without a message')
    """
    name, message = type(error).__name__, str(error)
    if message:
        return f"{name}: {message}"
    frames = extract_tb(error.__traceback__)
    if not frames:
        return f"{name} without a message"
    last = frames[-1]
    return f"{name} in {last.name}, {PurePath(last.filename).name} line {last.lineno}: {last.line}"
