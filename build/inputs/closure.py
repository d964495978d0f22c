"""The closure of a variant: all that its compilation may read, which is known before it compiles.

It has the files of the modules that the kernel's function reaches by import statements, what the manifest declares
under ``inputs:``, the installed distributions of which a module is reached with all that these require, the compiler,
and the interpreter. The process that compiles finds nothing else (``precast.build.child.closed``), so nothing else can
change what it makes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.errors import ChangedInputError, ObjectError
from precast.build.inputs.file_lists import is_metadata, normalised
from precast.build.inputs.input_answers import InputAnswers, answers_here
from precast.build.inputs.inputs import Inputs
from precast.build.inputs.installation import Installation
from precast.build.inputs.roots import PYTHON, Roots
from precast.build.inputs.sources import SourceDigests
from precast.build.satellites import satellite
from precast.loader.errors import PrecastError

_COMPILER = ("nvidia-cutlass-dsl", "apache-tvm-ffi")
_STAND_INS = ("torch",)  # precast's own tensors without memory use it; it counts where a kernel's modules import it
_ROOMS = ("attach", "build", "cli", "emulator", "fetch", "kernels", "loader", "manifests", "measure", "native")
_DISTRIBUTIONS = frozenset({"precast", "precast-publish", *(f"precast-{room}" for room in _ROOMS)})  # precast's own
_OWN = tuple(os.path.realpath(Path(__file__).parents[2] / room) for room in _ROOMS)
_NAMING = ("$ref", "$enum", "$dataclass", "$namedtuple")  # forms of a key that name a module


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """What a process may read: the names of the inputs, and their paths for the process itself."""

    names: tuple[str, ...]
    sources: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    """What is installed for precast's own code alone, and is not an input."""

    @property
    def digest(self) -> str:
        """A digest of all of it."""
        return memo_key(list(self.names), self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The closure as the settings of a child process."""
        fields = ("sources", "declared", "programs", "installed", "stand_ins")
        return {name: list(getattr(self, name)) for name in fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What decides the closure of a compilation: its function, the names of declared inputs, and modules that it
    imports by names that no statement has."""

    source: str
    declared: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    package: str = ""
    """The package of the attached library that has the function."""


def reads_of(source: str, declared: Iterable[str] = (), modules: Iterable[str] = ()) -> Reads:
    """What a function reads; one of an attached library (``module:function@library``) also what prepares that."""
    function, _, library = source.partition("@")
    prepared: tuple[str, ...] = ()
    if library:
        prepared = tuple(satellite("precast.attach.builder.seam_digests").seam_modules(library))
    return Reads(
        source=function,
        declared=tuple(declared),
        modules=tuple(dict.fromkeys((*modules, *prepared))),
        package=prepared[-1] if library else "",
    )


class Closures:
    """The closures of one build, each made once.

    >>> reads = Reads(source="precast.kernels.own.norms.rmsnorm:rmsnorm", modules=("torch._dynamo",))
    >>> names = Closures.here([]).of([reads]).names
    >>> "distribution:nvidia-cutlass-dsl" in names, "python" in names
    (True, True)
    >>> "distribution:torch" in names, "distribution:numpy" in names  # which torch imports, and does not require
    (True, True)
    """

    def __init__(self, sources: SourceDigests, answers: InputAnswers) -> None:
        self.sources, self.answers = sources, answers
        self._closures: dict[tuple[Reads, ...], Closure] = {}
        self._unreadable: dict[str, PrecastError] = {}  # by the digest of a closure
        self._lock = threading.Lock()

    @classmethod
    def here(cls, search: Sequence[Path], memo: Memo | None = None) -> Closures:
        """The closures on this machine, at this moment."""
        return cls(SourceDigests(search, memo), answers_here(search, memo))

    def of(self, reads: Iterable[Reads]) -> Closure:
        """The closure of one or several compilations in one process. A module that does not exist adds nothing."""
        key = tuple(reads)
        with self._lock:
            if key not in self._closures:
                self._closures[key] = self._closure(key)
            return self._closures[key]

    def read(self, closure: Closure) -> None:
        """Read the inputs; ``inputs`` returns the values of this moment, or raises what is wrong now."""
        try:
            self.answers.answers(closure.names)
        except PrecastError as error:
            self._unreadable.setdefault(closure.digest, error)

    def inputs(self, closure: Closure, copies: Mapping[str, object] = MappingProxyType({})) -> Inputs:
        """The inputs with their values; one that changed since it was read raises ChangedInputError, and so does one of
        which the process had another copy, given by paths and digests: it may have changed twice."""
        if (error := self._unreadable.get(closure.digest)) is not None:
            raise error
        inputs = Inputs.of(self.answers.answers(closure.names))
        name = self.answers.differing(copies, closure.names) or self.answers.moved(closure.names)
        if name is not None:
            raise ChangedInputError(f"{name} changed during the build: build again")
        return inputs

    def are_as_read(self, source: str, names: Iterable[str]) -> bool:
        """Whether a function's files and these inputs are still what was read. Else nothing may be kept under their
        values: a file that was saved meanwhile may later be as before."""
        return self.sources.changed(source) is None and self.answers.moved(names) is None

    def _closure(self, reads: Sequence[Reads]) -> Closure:
        installation, roots = self.answers.installation, self.answers.roots
        declared = tuple(dict.fromkeys(name for each in reads for name in each.declared))
        files, owners, checked = self._reached(reads)
        required = installation.with_required([*_COMPILER, *owners, *_of_kind(declared, "distribution")])
        counted = [name for name in required if name not in _DISTRIBUTIONS]
        own_metadata = [name for name in installation.names() if name in _DISTRIBUTIONS]  # its entry points
        stand_ins = set(installation.with_required(_STAND_INS)) - {*counted}
        files = {file for file in files if roots.place(file)[0] != PYTHON}  # the interpreter is an input as a whole
        own = {file for file in files if not _is_of_precast(file) and installation.owner(file) is None}
        own |= set(_metadata(own, [*roots.search, *roots.path], installation))
        names = {
            "python",
            *(f"{'source' if file in checked else 'file'}:{roots.portable(file)}" for file in own),
            *declared,
            *(f"distribution:{name}" for name in counted),
        }
        paths = (roots.path_of(name) for name in _of_kind(declared, "file", "folder"))
        return Closure(
            names=tuple(sorted(names)),
            sources=tuple(sorted({*own, *(link for file in own for link in self.sources.links(file))})),
            declared=tuple(filter(None, paths)),
            programs=tuple(p for name in _of_kind(declared, "program") for p in self.answers.program_paths(name)),
            installed=_paths_of(installation, {*counted, *own_metadata}),
            stand_ins=_paths_of(installation, stand_ins),
        )

    def _reached(self, reads: Sequence[Reads]) -> tuple[set[str], set[str], set[str]]:
        """The files of all modules that are reached; the distributions; the files of which checks do not count."""
        files, owners, whole = set[str](), set[str](), set[str]()
        for module in (module for each in reads for module in (each.source, *each.modules)):
            if (top := module.partition(".")[0]) in _STAND_INS:
                owners |= self.sources.named(top)
                continue
            try:
                reached, partly = self.sources.reached(module), self.sources.with_checks(module)
                files |= {str(file) for file in reached}
                whole |= {str(file) for file in reached if file not in partly}
                owners |= set(self.sources.distributions(module))
            except (ObjectError, OSError):
                continue  # the process itself reports it
        return files | self._packages(files, reads), owners, files - whole

    def _packages(self, files: Iterable[str], reads: Sequence[Reads]) -> set[str]:
        """All Python files of attached libraries that no installer has listed, such as editable ones: the guard of a
        kernel has the digest of them all."""
        ends = tuple(f"/{each.package.replace('.', '/')}/__init__.py" for each in reads if each.package)
        starts = [file for file in files if ends and file.endswith(ends)]
        unlisted = [Path(start).parent for start in starts if self.answers.installation.owner(start) is None]
        return {str(path) for folder in unlisted for path in folder.rglob("*.py")}


def _paths_of(installation: Installation, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for name in sorted(names) for path in installation.paths(name))


def _metadata(files: Iterable[str], folders: Iterable[str], installation: Installation) -> Iterator[str]:
    """The metadata, beside these files, of distributions without a list of their files, such as editable ones."""
    files = [os.path.realpath(file) for file in files]
    for folder in folders:
        start = os.path.join(os.path.realpath(folder), "")
        if os.path.isdir(folder) and any(file.startswith(start) for file in files):
            for name in filter(is_metadata, os.listdir(folder)):
                paths = (os.path.join(folder, name, file) for file in ("METADATA", "PKG-INFO", "entry_points.txt"))
                yield from (path for path in paths if os.path.isfile(path) and installation.owner(path) is None)


def _of_kind(names: Iterable[str], *kinds: str) -> list[str]:
    """The names of these kinds, without the kind."""
    return [rest for name in names for kind, _, rest in [name.partition(":")] if kind in kinds]


def declared_names(declared: Iterable[str], roots: Roots) -> tuple[str, ...]:
    """The names of inputs that a manifest declares, valid on any machine; files and folders are given by their paths.

    >>> declared_names(["file:/k/tiles.json", "program:git"], Roots(["/k"], []))
    ('file:search/tiles.json', 'program:git')
    """
    names = []
    for name in declared:
        kind, _, rest = name.partition(":")
        names.append(f"{kind}:{roots.portable(rest)}" if kind in ("file", "folder") else name)
    return tuple(dict.fromkeys(names))


def declared_input(kind: str, text: str, base: Path) -> str:
    """The name of one declared input, as a manifest in the folder ``base`` has it.

    >>> declared_input("packages", "Acme.Tiles", Path("/k")), declared_input("files", "tiles.json", Path("/k"))
    ('distribution:acme-tiles', 'file:/k/tiles.json')
    """
    if kind == "packages":
        return f"distribution:{normalised(text)}"
    if kind == "programs":
        return f"program:{text}"
    path = os.path.abspath(base / text)
    return f"folder:{path}" if os.path.isdir(path) else f"file:{path}"


def named_modules(form: object) -> Iterator[str]:
    """The modules that the forms of a key name.

    >>> list(named_modules({"op": ["$dataclass:mine.tiles:Tile", ["rows", 8]]}))
    ['mine.tiles']
    """
    if isinstance(form, str):
        tag, _, name = form.partition(":")
        if tag in _NAMING:
            yield name.partition(":")[0]
        return
    parts = form.values() if isinstance(form, Mapping) else form if isinstance(form, (list, tuple)) else ()
    for part in parts:
        yield from named_modules(part)


def _is_of_precast(file: str) -> bool:
    return any(file.startswith(f"{folder}{os.sep}") for folder in _OWN)
