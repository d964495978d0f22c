"""Environment reads: the variables that are looked up in ``os.environ`` and similar mappings."""

from __future__ import annotations

import _collections_abc
import os
import posix
import sys
from collections.abc import Callable, Iterator
from typing import Any

Note = Callable[[str, str], None]

_MAPPINGS = ("<frozen _collections_abc>", _collections_abc.__file__)  # Python 3.10 has it as a file


def watch_environment(note: Note) -> None:
    """Note every variable that is looked up, except those that this process has set itself.

    Code that iterates over all variables is noted once, with the kind ``variables``.
    """
    kind: Any = type(os.environ)
    get, iterate, put, delete = kind.__getitem__, kind.__iter__, kind.__setitem__, kind.__delitem__
    count, show = kind.__len__, kind.__repr__
    own: set[str] = set()
    iterating: set[tuple[Any, int]] = set()  # the code that iterates over all

    def __getitem__(environ: Any, key: Any) -> Any:
        name = os.fsdecode(key) if isinstance(key, (str, bytes)) else ""
        if name and name not in own and _caller() not in iterating:
            note("variable", name)
        return get(environ, key)

    def __iter__(environ: Any) -> Any:
        iterating.add(_caller())
        note("variables", "*")
        return iterate(environ)

    def __setitem__(environ: Any, key: Any, value: Any) -> None:
        put(environ, key, value)
        own.add(os.fsdecode(key))

    def __delitem__(environ: Any, key: Any) -> None:
        if (name := os.fsdecode(key)) not in own:
            note("variable", name)  # it is an error if there is none
        delete(environ, key)

    def __len__(environ: Any) -> int:
        note("variables", "*")
        return int(count(environ))

    def __repr__(environ: Any) -> str:
        note("variables", "*")
        return str(show(environ))

    kind.__getitem__, kind.__iter__, kind.__setitem__ = __getitem__, __iter__, __setitem__
    kind.__delitem__, kind.__len__, kind.__repr__ = __delitem__, __len__, __repr__
    posix.environ = _Watched(posix.environ, note)  # type: ignore[assignment]


class _Watched(_collections_abc.MutableMapping[bytes, bytes]):
    """The mapping that ``os.environ`` keeps its values in, as other code has it."""

    def __init__(self, values: dict[bytes, bytes], note: Note) -> None:
        self._values, self._note = values, note

    def __getitem__(self, name: bytes) -> bytes:
        self._note("variable", os.fsdecode(name))
        return self._values[name]

    def __iter__(self) -> Iterator[bytes]:
        self._note("variables", "*")
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __setitem__(self, name: bytes, value: bytes) -> None:
        self._values[name] = value

    def __delitem__(self, name: bytes) -> None:
        del self._values[name]


def _caller() -> tuple[Any, int]:
    """The calling line, outside of the methods that all mappings have."""
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in _MAPPINGS:
        frame = frame.f_back
    return frame.f_code, frame.f_lineno
