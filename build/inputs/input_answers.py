"""Input answers: the value of each input of a compilation at this moment, read without running anything."""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.machinery import FrozenImporter
from pathlib import Path

from precast.build import interpreter
from precast.build.disk.memo import Memo
from precast.build.inputs.contents import Contents, kind_of
from precast.build.inputs.inputs import Inputs, parse_names
from precast.build.inputs.installation import Installation, is_metadata
from precast.build.inputs.module_finder import ModuleFinder
from precast.build.inputs.roots import PYTHON, Roots
from precast.loader.contract.format.config import canonical

STANDARD = "standard library"
_USUAL_STARTUP = ("_virtualenv.pth", "distutils-precedence.pth")
_LIBRARY_FOLDERS = (
    "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/{}-linux-gnu", "/usr/lib/{}-linux-gnu", "/usr/local/lib",
)  # fmt: skip


class InputAnswers:
    """The values of one build. Each is read once, so that all variants use the same moment.

    >>> answers = InputAnswers(Roots.here([], {"TILE": "64"}))
    >>> answers.answer("module:json"), answers.answer("module:no_such_module"), answers.answer("variable:OTHER")
    ('standard library', None, None)
    """

    def __init__(self, roots: Roots, memo: Memo | None = None) -> None:
        importlib.invalidate_caches()
        self.began = time.time_ns()
        self.lock = threading.RLock()  # each value is read once, by one thread
        self.roots = roots
        self.contents = Contents(memo)
        self.installation = Installation(roots.path, memo)
        self._finder = ModuleFinder([Path(folder) for folder in roots.search], roots.path, standard=True)
        self._found: dict[str, str | None] = {}
        self._digests: dict[tuple[str, ...], str] = {}
        self._kinds: dict[str, Callable[[str], str | None]] = {
            "file": self._file,
            "folder": self._folder,
            "exists": self._exists,
            "link": self._link,
            "journal": self._journal,
            "distribution": self.installation.answer,
            "module": self._module,
            "variable": self._variable,
            "library": self._library,
            "program": self._program,
            "python": self._python,
            "variables": self._variables,
            "distributions": self._distributions,
        }

    def answer(self, name: str) -> str | None:
        """The value of an input by its name; None if it does not exist. An unknown kind is a FormatError."""
        with self.lock:
            if name not in self._found:
                parse_names([name])
                kind, _, rest = name.partition(":")
                self._found[name] = self._kinds[kind](rest)
            return self._found[name]

    def answers(self, names: Iterable[str]) -> dict[str, str | None]:
        """The values of several inputs, sorted by name."""
        return {name: self.answer(name) for name in sorted(set(names))}

    def forget(self, database: str, log: str) -> None:
        """Read the content of a database and of its log again: who reads them may have changed them."""
        paths = (database, log)
        for name in [name for name in self._found if name.startswith(("file:", "journal:"))]:
            if self.roots.path_of(name.partition(":")[2]) in paths:
                del self._found[name]
        self._digests.clear()
        self.contents.forget(paths)

    def digest(self, names: tuple[str, ...]) -> str:
        """The digest of these inputs; computed once for all variants that read the same."""
        if names not in self._digests:
            self._digests[names] = Inputs.of(self.answers(names)).digest
        return self._digests[names]

    def module_file(self, name: str) -> str | None:
        """The file that an import of this name would load at this moment."""
        if _is_built_in(name):
            return None
        spec = self._finder.spec(name)
        return os.path.abspath(spec.origin) if spec is not None and spec.has_location and spec.origin else None

    def library_file(self, name: str) -> str | None:
        """The file that the system would load for a library's name; settings in ``/etc`` are not read."""
        given = self.roots.environment.get("LD_LIBRARY_PATH", "").split(":")
        usual = [folder.format(platform.machine()) for folder in _LIBRARY_FOLDERS]
        files = (os.path.join(folder, name) for folder in [*given, *usual] if folder)
        return next((file for file in files if os.path.isfile(file)), None)

    def _file(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        return None if path is None else self._read(path)

    def _folder(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        return None if path is None else self.contents.folder(path)

    def _exists(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        return None if path is None else kind_of(path)

    def _journal(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        return None if path is None or not _size(path) else self._read(path)

    def _link(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        try:
            return None if path is None else _digest(self.roots.portable(os.readlink(path)))
        except (OSError, ValueError):
            return None

    def _module(self, name: str) -> str | None:
        if _is_built_in(name):
            return STANDARD
        spec = self._finder.spec(name)
        if spec is None:
            return None
        if not spec.has_location or not spec.origin:
            if spec.submodule_search_locations is None:
                return STANDARD
            return f"namespace package {_digest([*map(self.roots.origin, spec.submodule_search_locations)])}"
        file = os.path.abspath(spec.origin)
        owner = self.installation.owner(file)
        if owner is not None:
            return f"distribution:{owner}"
        if self.roots.place(file)[0] == PYTHON:
            return STANDARD
        # The path counts beside the content: the module may read data relative to it.
        return f"file:{self.roots.origin(file)} {self._read(file)}"

    def _variable(self, name: str) -> str | None:
        """A digest, since stores that others may read keep it, and a variable may be a secret."""
        value = self.roots.environment.get(name)
        return None if value is None else _digest(value)

    def _variables(self, _: str) -> str:
        return _digest(dict(self.roots.environment))

    def _library(self, name: str) -> str | None:
        file = self.library_file(name)
        return None if file is None else self._read(file)

    def _program(self, name: str) -> str | None:
        file = shutil.which(name, path=self.roots.environment.get("PATH", os.defpath))
        return None if file is None else self._read(os.path.realpath(file))

    def _distributions(self, _: str) -> str:
        rows = []
        for folder in (*self.roots.search, *self.roots.path):
            names = filter(is_metadata, os.listdir(folder) if os.path.isdir(folder) else ())
            files = ((name, os.path.join(folder, name, "entry_points.txt")) for name in sorted(names))
            rows += [[self.roots.portable(folder), name, self._read(file)] for name, file in files]
        return _digest(rows)

    def _python(self, _: str) -> str:
        optimised = self.roots.environment.get("PYTHONOPTIMIZE")
        startup = self._startup()
        return " ".join(filter(None, (interpreter.VERSION, optimised and f"optimised {optimised}", startup)))

    def _startup(self) -> str:
        """The code of ``.pth`` files that no distribution owns: Python runs it before anything can be observed."""
        lines: list[str] = []
        for folder in self.roots.sites:
            names = (
                sorted(name for name in os.listdir(folder) if name.endswith(".pth")) if os.path.isdir(folder) else ()
            )
            for name in names:
                path = os.path.join(folder, name)
                if name not in _USUAL_STARTUP and self.installation.owner(path) is None and os.path.isfile(path):
                    text = Path(path).read_text(errors="replace")
                    lines += [line for line in text.splitlines() if line.startswith(("import ", "import\t"))]
        return f"startup {_digest(lines)[:16]}" if lines else ""

    def _read(self, path: str) -> str | None:
        return self.contents.read(path, installed=self.roots.is_site(path)).digest


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except (OSError, ValueError):
        return 0


def _is_built_in(name: str) -> bool:
    """Whether a module is part of the interpreter, so that nothing on the path can hide it."""
    return name in sys.builtin_module_names or ("." not in name and FrozenImporter.find_spec(name) is not None)


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
