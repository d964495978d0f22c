"""Errors in a kernel's declaration, or in the reference to its function."""

from __future__ import annotations

from pathlib import PurePath
from traceback import extract_tb, walk_tb

from precast.loader.errors import PrecastError


class DeclarationError(PrecastError, TypeError):
    """A function cannot be a kernel: its signature, hints or declaration hold something unsupported."""

    code = "PCK01"


class SourceError(PrecastError, ImportError):
    """A ``module:function`` is misspelt, or cannot be imported or called."""

    code = "PCK02"


class UnknownOp(PrecastError, LookupError):
    """No installed distribution registers a kernel for the op."""

    code = "PCK03"


_OURS = (
    "precast.kernels.authoring.", "precast.build.", "precast.measure.", "precast.loader.", "precast.emulator.",
    "torch.",
)  # fmt: skip


def described(error: BaseException) -> str:
    """The type and the message of an error, and where the author's code raised it, if it did.

    >>> described(ValueError("three is too many")), described(KeyError())
    ('ValueError: three is too many', 'KeyError without a message')
    """
    name, message = type(error).__name__, str(error)
    return (f"{name}: {message}" if message else f"{name} without a message") + _where(error)


def _where(error: BaseException) -> str:
    """The last line in the file of the author's function that was called; empty where the error is not of such."""
    walked = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    frames = list(extract_tb(error.__traceback__))
    first = next((i for i, module in enumerate(walked) if not f"{module}.".startswith(_OURS)), None)
    if first is None:
        return ""
    last = next(frame for frame in reversed(frames) if frame.filename == frames[first].filename)
    return f" ({PurePath(last.filename).name}:{last.lineno}: {last.line})"
