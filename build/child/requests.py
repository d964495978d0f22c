"""Requests: the variables and the files that code has read, with the file of the code, for the facts of kernels."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from precast.build.child.code_locations import is_own, is_standard

Request = tuple[str, str, str]
"""A request: its kind (``variable`` or ``file``), what was requested, and the file of the code that made it."""
_CODE = (".py", ".pyc", ".so")  # files of code, which are opened for what runs in them


class Requests:
    """Notes the requests of this process after ``install``, which cannot be undone.

    >>> Requests().all
    frozenset()
    """

    def __init__(self) -> None:
        self._all: set[Request] = set()
        self._recent: set[Request] = set()

    def install(self) -> Requests:
        """Start to note."""
        kind: Any = type(os.environ)
        get = kind.__getitem__

        def noted(environ: Any, key: Any) -> Any:
            if isinstance(key, str):
                self._note("variable", key)
            return get(environ, key)

        kind.__getitem__ = noted

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(arguments[0], str) and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
                self._note("file", arguments[0])
            elif event == "subprocess.Popen" and isinstance(arguments[1], (list, tuple)):
                for word in arguments[1]:  # of a program that reads them, such as ``cat``
                    if isinstance(word, str) and os.path.isfile(word):
                        self._note("file", word)

        sys.addaudithook(hook)
        return self

    def begin(self) -> None:
        """Start to note which variables are read from here on, whether or not they were read before."""
        self._recent.clear()

    @property
    def recent(self) -> frozenset[Request]:
        """The requests for variables since ``begin``, without those of modules that were imported then."""
        return frozenset(self._recent)

    @property
    def all(self) -> frozenset[Request]:
        """All requests so far."""
        return frozenset(self._all)

    def _note(self, kind: str, what: str) -> None:
        file, importing = _code(frame := sys._getframe(2))
        if file:
            request = (kind, os.path.abspath(what) if kind == "file" else what, file)
            self._all.add(request)
            if kind == "file" and not what.endswith(_CODE):  # a function of numpy may have opened it for other code
                self._all |= {(*request[:2], caller) for caller in _callers(frame)}
            if kind == "variable" and not importing:
                self._recent.add(request)


def _callers(frame: FrameType | None) -> Iterator[str]:
    """The files of the code that is running, up to precast's own, or to the import of a module."""
    while frame is not None and not is_own(str(frame.f_globals.get("__name__", ""))):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return
        yield os.path.abspath(frame.f_code.co_filename)
        frame = frame.f_back


def _code(frame: FrameType | None) -> tuple[str, bool]:
    """The file of the innermost code outside of the standard library, empty if that is precast's own or the import
    system; and whether a module that is being imported runs it. Generated code has the file of its module."""
    code_file = ""
    while frame is not None:
        file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        if not code_file:
            if file.startswith("<frozen importlib"):
                return "", False
            if file.startswith("<"):
                file = str(frame.f_globals.get("__file__") or "")
            if file and not is_standard(file):
                if is_own(name):
                    return "", False
                code_file = os.path.abspath(file)
        if frame.f_code.co_name == "<module>" and name != "__main__":
            return code_file, True
        frame = frame.f_back
    return code_file, False
