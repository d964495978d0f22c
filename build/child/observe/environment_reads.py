"""Environment reads: which variables are looked up in ``os.environ`` and its relatives."""

from __future__ import annotations

import _collections_abc
import os
import sys
from collections.abc import Callable
from typing import Any

Note = Callable[[str, str], None]

_MAPPINGS = ("<frozen _collections_abc>", _collections_abc.__file__)  # Python 3.10 has it as a file


def watch_environment(note: Note) -> None:
    """Note every variable that is looked up. Those that this process has set itself are no input.

    Whoever goes through all of them asks for ``variables``, and not for each.
    """
    kind: Any = type(os.environ)
    get, iterate, put = kind.__getitem__, kind.__iter__, kind.__setitem__
    own: set[str] = set()
    through: set[tuple[Any, int]] = set()  # the code that goes through all

    def __getitem__(environ: Any, key: Any) -> Any:
        name = os.fsdecode(key) if isinstance(key, (str, bytes)) else ""
        if name and name not in own and _caller() not in through:
            note("variable", name)
        return get(environ, key)

    def __iter__(environ: Any) -> Any:
        through.add(_caller())
        note("variables", "*")
        return iterate(environ)

    def __setitem__(environ: Any, key: Any, value: Any) -> None:
        put(environ, key, value)
        own.add(os.fsdecode(key))

    kind.__getitem__, kind.__iter__, kind.__setitem__ = __getitem__, __iter__, __setitem__


def _caller() -> tuple[Any, int]:
    """The line that asks, past the methods that every mapping has."""
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in _MAPPINGS:
        frame = frame.f_back
    return frame.f_code, frame.f_lineno
