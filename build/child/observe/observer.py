"""The observer: records what one process reads while it imports a kernel's module and compiles one variant.

It is installed in a fresh fork, before the module is imported, and tells nothing apart: whatever this process reads
belongs to its one compilation. It decides nothing either. Each thing is recorded with the place that asked, and
``precast.build.inputs.inputs`` decides what counts.

The place is the innermost frame that is neither the standard library nor precast's own build. What the standard library
asks while one of its own modules is imported has no place, and is not recorded; a random name of a temporary file too.

Not seen: what native code opens or asks by itself, what a program that was started reads, and whether a file exists
where it is not opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import CodeType, FrameType
from typing import Any, TypeVar

from precast.build.child.observe.code_locations import HIDDEN, LOOK_ON, is_installed, place_of_code
from precast.build.child.observe.loaded_modules import LoadedModules, is_text, loaded_libraries
from precast.build.child.observe.source_only import import_from_source
from precast.build.inputs.stamp import Stamp, stamp_of

T = TypeVar("T")

_MOST = 100_000  # entries; a compilation that asks for more is not understood


class Observer:
    """Everything that the process asks for after ``install``; nothing can take it away again.

    >>> observer = Observer()
    >>> sorted(observer.observed())
    ['asked', 'complete', 'libraries', 'missing', 'modules', 'path', 'stamps']
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, str, int], None] = {}
        self._stamps: dict[str, Stamp | None] = {}
        self._imported: set[str] = set()
        self._missing: dict[str, None] = {}
        self._libraries: set[str] = set()
        self._told = {"asked": 0, "stamps": 0, "missing": 0}  # how many of each were given before
        self._written: set[str] = set()
        self._places: dict[CodeType, str] = {}
        self._complete = True
        self._modules = LoadedModules()

    def install(self) -> Observer:
        """Start to record. Modules outside of installed distributions are compiled from their text from now on."""
        from precast.build.child.observe.distribution_reads import watch_distributions
        from precast.build.child.observe.environment_reads import watch_environment
        from precast.build.child.observe.unsteady_calls import watch_unsteady_calls

        import_from_source()
        sys.meta_path.append(_LastFinder(self._missing))
        watch_distributions(self.note)
        watch_environment(self.note)
        watch_unsteady_calls(self.note)
        handlers = self._handlers()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            handler = handlers.get(event)
            if handler is not None:
                try:
                    handler(*arguments)
                except Exception:  # an error here would become the caller's
                    self._complete = False

        sys.addaudithook(hook)
        return self

    def note(self, kind: str, what: str) -> None:
        """Record that the code which is running asks for something."""
        location = self._place()
        if location is not None:
            self._note(kind, what, *location)

    def observed(self) -> dict[str, Any]:
        """What was recorded since the last call, as JSON can hold it, and what Python searches now.

        In a process that was forked after a call this is what it alone has read.
        """
        modules = self._modules.new_rows()
        self._complete &= self._modules.complete
        for path in self._imported - self._modules.files:  # a module that failed to import, or was run by a path
            self._note("file", path, "", 0)
        for _, file, _ in modules:
            if file is not None and file not in self._stamps and not is_installed(file):
                self._stamps[file] = stamp_of(file)
        libraries = loaded_libraries() - self._libraries
        self._libraries |= libraries
        return {
            "asked": [list(item) for item in sorted(self._new("asked", self._asked))],
            "stamps": {path: self._stamps[path] for path in sorted(self._new("stamps", self._stamps))},
            "modules": [list(item) for item in modules],
            "missing": [name for name in sorted(self._new("missing", self._missing)) if self._texts(name)],
            "libraries": sorted(libraries),
            "path": [item for item in sys.path if isinstance(item, str) and self._texts(item)],
            "complete": self._complete,
        }

    def _new(self, name: str, recorded: Mapping[T, object]) -> Iterator[T]:
        """What was recorded since the last call: a dictionary keeps its order, and nothing is taken out of these."""
        reported, self._told[name] = self._told[name], len(recorded)
        return islice(list(recorded), reported, None)

    def _note(self, kind: str, what: str, file: str, line: int) -> None:
        if len(self._asked) >= _MOST:
            self._complete = False
        elif self._texts(what, file):
            self._asked[kind, what, file, line] = None

    def _texts(self, *values: str) -> bool:
        """Whether these can be recorded. What cannot is left out."""
        self._complete &= (right := is_text(*values))
        return right

    def _place(self) -> tuple[str, int] | None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            location = self._places.get(code)
            if location is None:
                location = self._places[code] = place_of_code(frame)
            if location is HIDDEN:
                return None
            if location is not LOOK_ON:
                return location, frame.f_lineno
            frame = frame.f_back
        return None

    def _handlers(self) -> dict[str, Callable[..., None]]:
        def program(executable: Any, arguments: Any = (), *_: Any) -> None:
            words = [arguments] if isinstance(arguments, (str, bytes, os.PathLike)) else list(arguments or ())
            self._program(executable or words[0])
            if len(words) > 2 and words[1] in ("-c", b"-c"):  # a shell's command line
                shell(words[2])

        def shell(command: Any) -> None:
            self._program("/bin/sh")
            self._program(os.fsdecode(command).strip().partition(" ")[0] or "sh")

        def rename(source: Any, target: Any, *_: Any) -> None:
            if _absolute(source) in self._written:
                self._written.add(_absolute(target))

        def library(name: Any) -> None:
            if name:
                self.note("library", _absolute(name) if "/" in os.fsdecode(name) else os.fsdecode(name))

        def network(event: str) -> Callable[..., None]:
            return lambda *_: self.note("network", event)

        return {
            "open": self._open,
            "os.listdir": self._list,
            "os.scandir": self._list,
            "sqlite3.connect": lambda path, *_: self._open(path, None, os.O_RDONLY),
            "ctypes.dlopen": library,
            "subprocess.Popen": program,
            "os.posix_spawn": program,
            "os.exec": program,
            "os.system": shell,
            "os.rename": rename,
            "socket.connect": network("socket.connect"),
            "socket.sendto": network("socket.sendto"),
            "socket.getaddrinfo": network("socket.getaddrinfo"),
            "socket.gethostbyname": network("socket.gethostbyname"),
        }

    def _open(self, path: Any, _mode: Any, flags: int, *_: Any) -> None:
        if isinstance(path, int):
            return
        name = _absolute(path)
        if flags & os.O_WRONLY or (flags & os.O_RDWR and flags & (os.O_TRUNC | os.O_EXCL)):
            self._written.add(name)
        if name in self._written or not self._texts(name):  # what it wrote itself is no input
            return
        importing = _importing()
        if importing and name.endswith(".pyc"):
            return
        if importing:
            self._imported.add(name)
        else:
            self.note("file", name)
        if name not in self._stamps and len(self._stamps) < _MOST:
            self._stamps[name] = stamp_of(name)

    def _program(self, name: Any) -> None:
        text = os.fsdecode(name)
        self.note("program", _absolute(text) if "/" in text else text)

    def _list(self, path: Any = None, *_: Any) -> None:
        if path is None or path == "":
            path = os.curdir
        elif isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        if not _importing():
            self.note("folder", _absolute(path))


class _LastFinder:
    """The last of the import system's finders: a name that comes here was found by none of the others."""

    def __init__(self, missing: dict[str, None]) -> None:
        self._missing = missing

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Record the name. It stays missing."""
        self._missing[name] = None


def _importing() -> bool:
    """Whether the import system itself asks: it looks for a module or reads one. Data that a package reads through its
    loader counts as read by the package, as does a distribution's list of what is installed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename.endswith("importlib/metadata/__init__.py"):
        return frame.f_code.co_name in ("children", "zip_children")
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name in ("get_code", "find_spec", "_fill_cache", "_path_hooks"):
            return True
        frame = frame.f_back
    return False


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))
