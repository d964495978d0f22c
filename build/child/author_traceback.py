"""Tracebacks for authors: the frames of the author's code, without those of precast and the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from traceback import FrameSummary, StackSummary, TracebackException, walk_tb
from types import FrameType, TracebackType

from precast.loader.errors import PrecastError

_LIMIT = 40_000
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Modules whose frames are not an author's code. Kernels that ship with precast count as an author's.
_INTERNAL = (
    "precast.attach", "precast.build", "precast.loader", "precast.kernels.authoring", "precast.kernels.row_kernel",
    "precast.kernels.adapters.scripts.meta_tensors", "precast.kernels.adapters.first_launch",
    "importlib", "runpy", "functools", "contextlib", "cutlass", "torch",
)  # fmt: skip
_LIBRARIES = ("cutlass.operators",)  # a library of kernels, although it is inside the compiler's package


def author_traceback(error: BaseException) -> str:
    """The traceback of an error and of its causes, each with only the author's frames.

    An error without such a frame keeps all frames: then precast or the compiler is at fault. A PrecastError, whose
    message has advice, and a SyntaxError, which names its own file, keep none then.

    >>> try:
    ...     raise ValueError("three is too many")
    ... except ValueError as error:
    ...     print(author_traceback(error).splitlines()[-1])
    ValueError: three is too many
    """
    trace = TracebackException.from_exception(error)
    _trim(trace, error)
    return "".join(trace.format())[-_LIMIT:]


def without_colours(text: str) -> str:
    """A text without the escape sequences that colour it on a terminal: the compiler writes them in a pipe, too.

    >>> without_colours("\\x1b[91merror:\\x1b[0m no name")
    'error: no name'
    """
    return _ESCAPE.sub("", text)


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text, and the author's line, where a later line of it has that.

    The compiler's errors have pages of text, which the traceback has, too.

    >>> first_line(ValueError("error: no name\\n  --> kernel.py:61\\n"))
    'ValueError: no name (kernel.py:61)'
    """
    lines = [line.strip() for line in without_colours(str(error)).splitlines() if line.strip()]
    first = lines[0].removeprefix("error: ") if lines else ""
    place = next((line[4:] for line in lines[1:] if line.startswith("--> ")), "")  # words: allow
    return f"{type(error).__name__}{f': {first}' if first else ''}{f' ({place})' if place else ''}"


def author_frames(error: BaseException) -> list[FrameSummary]:
    """The frames of an error in the author's code, outermost first."""
    return list(StackSummary.extract(_author_steps(error.__traceback__)))


def _trim(trace: TracebackException, error: BaseException) -> None:
    frames = author_frames(error)
    if frames or isinstance(error, (PrecastError, SyntaxError)):
        trace.stack = StackSummary.from_list(frames)
    if trace.__cause__ is not None and error.__cause__ is not None:
        _trim(trace.__cause__, error.__cause__)
    if trace.__context__ is not None and error.__context__ is not None:
        _trim(trace.__context__, error.__context__)


def _author_steps(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    for frame, line in walk_tb(trace):
        module = str(frame.f_globals.get("__name__", ""))
        if module == "__main__":  # a script of the author's, or the module of precast that runs in this process
            module = getattr(frame.f_globals.get("__spec__"), "name", module)
        internal = _below(module, _INTERNAL) and not _below(module, _LIBRARIES)
        if not internal and not frame.f_code.co_filename.startswith("<frozen "):
            yield frame, line


def _below(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)
