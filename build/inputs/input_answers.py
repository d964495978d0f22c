"""Input answers: the value of each input at this moment, read without running anything."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from precast.build import interpreter
from precast.build.disk.memo import Memo
from precast.build.inputs.compiled_source import compiled_source
from precast.build.inputs.contents import Contents, changed, stamp_of
from precast.build.inputs.import_statements import imports_of
from precast.build.inputs.inputs import Inputs, parse_names
from precast.build.inputs.installation import Installation
from precast.build.inputs.roots import Roots
from precast.build.inputs.sources import SourceDigests
from precast.loader.contract.format.config import canonical

_READ_AGAIN = ("file", "folder", "program", "source")
_USUAL_STARTUP = ("_virtualenv.pth", "distutils-precedence.pth")
_OF_FOLDERS = ("__editable__", "nvidia_cutlass_dsl", "precast", "_precast")  # they add folders to Python's path
_STARTUP_MODULES = ("sitecustomize", "usercustomize")  # Python runs them before anything else


class InputAnswers:
    """The values of one build. Each is read once, so that all variants use the same moment.

    >>> answers = InputAnswers(Roots.here([]))
    >>> answers.answer("file:/etc/precast/no-such-file"), answers.answer("program:no-such-program")
    (None, None)
    """

    def __init__(self, roots: Roots, memo: Memo | None = None) -> None:
        self.roots = roots
        self.contents = Contents(memo)
        self.installation = Installation(roots.path, memo)
        self._memo = memo
        self._lock = threading.RLock()  # each value is read once, by one thread
        self._answers: dict[str, str | None] = {}
        self._digests: dict[tuple[str, ...], str] = {}
        self._stamps: dict[str, tuple[int, ...] | None] = {}
        self._kinds: dict[str, Callable[[str], str | None]] = {
            "file": self._file,
            "source": self._source,
            "folder": self._folder,
            "distribution": self._distribution,
            "program": self._program,
            "python": self._python,
        }

    def answer(self, name: str) -> str | None:
        """The value of an input by its name; None if it does not exist. An unknown kind is a FormatError."""
        with self._lock:
            if name not in self._answers:
                parse_names([name])
                kind, _, rest = name.partition(":")
                self._answers[name] = self._kinds[kind](rest)
            return self._answers[name]

    def answers(self, names: Iterable[str]) -> dict[str, str | None]:
        """The values of several inputs, sorted by name."""
        return {name: self.answer(name) for name in sorted(set(names))}

    def digest(self, names: tuple[str, ...]) -> str:
        """The digest of these inputs; computed once for all variants that have the same."""
        if names not in self._digests:
            self._digests[names] = Inputs.of(self.answers(names)).digest
        return self._digests[names]

    def moved(self, names: Iterable[str]) -> str | None:
        """The first of these inputs that is another one now than when it was read; None if there is none.

        Files, folders and programs are read again; of a distribution, the list that an installer writes is looked at.
        ``edited`` finds what was done without one.
        """
        now = InputAnswers(self.roots, self._memo)
        for name in names:
            kind, _, rest = name.partition(":")
            read_again = kind in _READ_AGAIN and now.answer(name) != self.answer(name)
            listed_anew = kind == "distribution" and self._stamps.get(rest) != self._list_stamp(rest)
            if read_again or listed_anew:
                return name
        return None

    def edited(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these distributions of which a file is another one now than when it was read; and the interpreter,
        if it starts with other code."""
        names = frozenset(name for name in names if name.startswith("distribution:"))
        now = InputAnswers(self.roots, self._memo)
        edited = {n for n in names if self.installation.is_edited(n.partition(":")[2], now.installation)}
        python = {"python"} & self._answers.keys()
        return frozenset(edited | {name for name in python if now.answer(name) != self._answers[name]})

    def differing(self, copies: Mapping[str, object], names: Collection[str]) -> str | None:
        """The first of these inputs of which a process had another copy, by the digests of the copies by path."""
        for path, digest in copies.items():
            portable = self.roots.portable(path)
            for kind in ("file", "folder", "source"):
                name = f"{kind}:{portable}"
                if name in names and digest != (self._file(portable) if kind == "source" else self.answer(name)):
                    return name
        return None

    def program_file(self, name: str) -> str | None:
        """The file of a program that is looked up in this process's PATH."""
        return shutil.which(name)

    def program_paths(self, name: str) -> tuple[str, ...]:
        """The paths of that file: code also starts programs by the usual ones, such as ``/bin/sh``."""
        file = self.program_file(name)
        usual = [os.path.join(folder, name) for folder in ("/usr/bin", "/bin")]
        return (
            ()
            if file is None
            else (file, *(path for path in usual if os.path.realpath(path) == os.path.realpath(file)))
        )

    def _file(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        return None if path is None else self.contents.file(path, installed=self.roots.is_site(path))

    def _source(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        digest = self._file(name)
        if path is None or self.contents.read(path).digest is None:
            return digest  # there is no such file, or it cannot be read
        content = Path(path).read_bytes()
        if self.contents.read(path).digest != hashlib.sha256(content).hexdigest():
            raise changed(path)
        compiled = compiled_source(content)
        return digest if compiled == content else f"compiled {hashlib.sha256(compiled).hexdigest()}"

    def _folder(self, name: str) -> str | None:
        path = self.roots.path_of(name)
        return None if path is None else self.contents.folder(path)

    def _distribution(self, name: str) -> str | None:
        self._stamps[name] = self._list_stamp(name)
        return self.installation.answer(name)

    def _list_stamp(self, name: str) -> tuple[int, ...] | None:
        """The stamp of a distribution's list of files; None if it is not installed. Without the time of the last change
        of these facts: an environment that is made of hard links to these files changes it, and nothing else."""
        stamp = stamp_of(self.installation.metadata_file(name)) if self.installation.version(name) else None
        return None if stamp is None else stamp[:3]

    def _program(self, name: str) -> str | None:
        file = self.program_file(name)
        return None if file is None else self._read(os.path.realpath(file))

    def _python(self, _: str) -> str:
        return " ".join(filter(None, (interpreter.VERSION, self._startup())))

    def _startup(self) -> str:
        """The code that Python runs when it starts, with the modules that it imports."""
        modules, lines, owners = list(_STARTUP_MODULES), list[str](), set[str]()
        for folder in self.roots.sites:
            for name in sorted(n for n in os.listdir(folder) if n.endswith(".pth")) if os.path.isdir(folder) else ():
                path = os.path.join(folder, name)
                if name in _USUAL_STARTUP or name.startswith(_OF_FOLDERS) or not os.path.isfile(path):
                    continue
                text = Path(path).read_text(errors="replace")
                if code := [line for line in text.splitlines() if line.startswith(("import ", "import\t"))]:
                    lines += code
                    owners.update(filter(None, [self.installation.owner(path)]))
                    modules += [base for line in code for _, base, _ in imports_of(line.encode())]
        rows: list[object] = [*lines]
        sources = SourceDigests([], self._memo)
        for module in dict.fromkeys(modules):
            if module in sys.stdlib_module_names or not sources.find(module):
                continue
            rows += [self._read(str(file)) for file in sources.reached(module)]
            owners.update(sources.distributions(module))
        rows += [self.answer(f"distribution:{name}") for name in sorted(owners)]
        return f"startup {_digest(rows)[:16]}" if rows else ""

    def _read(self, path: str) -> str | None:
        return self.contents.read(path, installed=self.roots.is_site(path)).digest


def answers_here(search: Iterable[Path], memo: Memo | None = None) -> InputAnswers:
    """The values of inputs on this machine, at this moment."""
    return InputAnswers(Roots.here(search), memo)


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
