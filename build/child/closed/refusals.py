"""Refusals: an error at the line of the kernel's code that requests what its closure does not have.

The kernel of the system refuses what is outside; this says which line requested it and what to write into the manifest.
Requests of installed packages are not reported: they look for settings and tools in many places, and do without.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any
from urllib.parse import unquote

from precast.build.child.author_traceback import author_frames
from precast.build.child.code_locations import is_installed, is_own, is_standard
from precast.build.errors import UndeclaredInput

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NETWORK = ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname")
_LOST: list[UndeclaredInput] = []  # refusals that Python has replaced by errors of its own
_LOCAL = ("127.", "::1", "localhost")


class Refusals:
    """Refuses requests of the author's code. ``readable`` has the paths of the closure, or is None in a root that has
    nothing else; ``programs`` those that may be started. Only precast's own code finds the packages ``stand_ins``."""

    def __init__(self, readable: Sequence[str] | None, programs: Sequence[str], stand_ins: Sequence[str] = ()) -> None:
        self._readable = None if readable is None else frozenset(map(os.path.realpath, readable))
        self._programs = frozenset(map(os.path.realpath, (*programs, sys.executable)))
        self._made: set[str] = set()
        self._stand_ins = frozenset(stand_ins)
        self._modules = frozenset(os.path.basename(path).partition(".")[0] for path in stand_ins)

    def install(self) -> Refusals:
        """Refuse from now on; it cannot be undone."""
        handlers: dict[str, Callable[..., None]] = {
            "open": self._open,
            "os.listdir": self._path,
            "os.scandir": self._path,
            "sqlite3.connect": self._database,
            "ctypes.dlopen": self._library,
            "subprocess.Popen": self._program,
            "os.exec": self._program,
            "os.posix_spawn": self._program,
            "os.system": lambda _: self._program("sh"),
            "cpython.PyInterpreterState_New": self._interpreter,
            **dict.fromkeys(_NETWORK, self._network),
        }

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            handler = handlers.get(event)
            if handler is not None:
                try:
                    handler(*arguments)
                except (TypeError, ValueError):  # the function itself reports what is wrong
                    return

        sys.addaudithook(hook)
        sys.meta_path.insert(0, self)
        return self

    def _open(self, path: Any, _: Any, flags: int) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            if flags & _WRITES:
                self._made.add(os.path.realpath(os.fsdecode(path)))
            elif os.path.isabs(os.fsdecode(path)):  # another may be relative to a folder that only the system knows
                self._path(path)

    def find_spec(self, module: str, *_: object) -> None:
        """As the first finder of modules: there is no module of the stand-ins for other code. Else others look."""
        if module.partition(".")[0] in self._modules:
            importer = _importer().partition(".")[0]
            if importer != "precast" and importer not in self._modules:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    def _path(self, path: Any = ".", *_: Any) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        name = os.path.abspath(os.fsdecode(path))
        if self._is_absent(name) and (at := _requester()):
            raise UndeclaredInput.of_path(os.path.realpath(name), at)

    def _database(self, name: Any, *_: Any) -> None:
        text = os.fsdecode(name)
        path = unquote(text.removeprefix("file:").partition("?")[0]) if text.startswith("file:") else text
        if path and ":memory:" not in path and "mode=memory" not in text:
            self._path(path)

    def _library(self, name: Any) -> None:
        if name and "/" in os.fsdecode(name):
            self._path(name)

    def _program(self, name: Any, arguments: Any = (), *_: Any) -> None:
        words = [arguments] if isinstance(arguments, (str, bytes, os.PathLike)) else list(arguments or ())
        text = os.fsdecode(name or words[0])
        file = text if "/" in text else shutil.which(text)
        absent = file is None or not os.path.exists(file)
        if self._readable is not None and file is not None:
            absent = os.path.realpath(file) not in self._programs and self._is_absent(os.path.realpath(file))
        if absent and (at := _requester()):
            raise UndeclaredInput.of_program(text, at)

    def _network(self, *arguments: Any) -> None:
        text = str(arguments[-1][0] if isinstance(arguments[-1], tuple) else arguments[0])
        local = text.startswith(_LOCAL) or text.startswith("/") or not text
        if not local and (at := _requester()):
            raise UndeclaredInput.of_network(at)

    def _interpreter(self, *_: object) -> None:
        """Refused by anybody: this hook is not called there, and imports of the DSL there would never end."""
        refused = UndeclaredInput.of_interpreter(_requester() or "code of a package")
        _LOST.append(refused)
        raise refused

    def _is_absent(self, path: str) -> bool:
        if self._is_of_stand_in(path):
            return True
        if self._readable is None:
            return not os.path.exists(path)
        real = os.path.realpath(path)
        if real in self._made:
            return False
        while real not in self._readable:
            if len(real) < 2:
                return True
            real = os.path.dirname(real)
        return False

    def _is_of_stand_in(self, path: str) -> bool:
        while self._stand_ins and len(path) > 1:
            if path in self._stand_ins:
                return True
            path = os.path.dirname(path)
        return False


def explained(error: BaseException) -> BaseException:
    """An error that may have come of what the closure does not have, as one that says so; else the error itself."""
    frames = [f for f in author_frames(error) if not is_standard(f.filename) and not is_installed(f.filename)]
    if isinstance(error, UndeclaredInput):
        return error
    if _LOST:
        return _LOST[0].with_traceback(error.__traceback__)
    if not frames:
        return error
    at = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
    refused: UndeclaredInput | None = None
    missing = error.filename if isinstance(error, (FileNotFoundError, PermissionError)) else None
    if isinstance(missing, (str, bytes, os.PathLike)):
        name = os.fsdecode(missing)  # of a link in a declared folder, what it leads to must be declared
        refused = UndeclaredInput.of_path(os.path.realpath(name) if os.path.isabs(name) else name, at)
    elif isinstance(error, KeyError) and _is_variable(error):
        refused = UndeclaredInput.of_variable(str(error.args[0]), at)
    return refused.with_traceback(error.__traceback__) if refused is not None else error


def _is_variable(error: KeyError) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    modules = ("os", "precast.build.child.requests")
    return trace is not None and trace.tb_frame.f_globals.get("__name__") in modules


def _importer() -> str:
    """The name of the module that imports another one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen importlib") and not file.endswith("importlib/__init__.py"):
            return str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    return ""


def _requester() -> str:
    """The line of the author's code that makes the request; empty if other code makes it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == __file__ or (file.startswith("<frozen ") and "importlib" not in file):
            frame = frame.f_back
            continue
        if file.startswith("<frozen importlib") or file.endswith("importlib/metadata/__init__.py"):
            return ""  # the import system looks for modules
        module = str(frame.f_globals.get("__name__", ""))
        if is_installed(file) or is_own(module):
            return ""
        if not is_standard(file) and not file.startswith("<"):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        if is_standard(file) and frame.f_code.co_name == "<module>":
            return ""  # a module of the standard library is imported
        frame = frame.f_back
    return ""
