"""Input rules: which of the things that a compilation read are its inputs, and which no key can cover.

The code that made the request decides. Requests of the author's code always count: code in the manifest's search
folders, editable installs, folders of ``PYTHONPATH`` and ``.pth`` files, and files put into site-packages by hand.

Code of an installed distribution (a ``RECORD`` lists it) makes many requests when it is imported, as torch, numpy and
the DSL do. The following are ignored: the clock, randomness, the network; files, folders, programs and
libraries of the system, ``/proc`` and ``/sys``; temporary files; variables, of which a worker has few
(``child_environment``); and lists of installed packages. Its other files count.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from precast.build.inputs.contents import changed, hash_file, kind_of
from precast.build.inputs.databases import Databases, database_of
from precast.build.inputs.input_answers import STANDARD, InputAnswers
from precast.build.inputs.inputs import Inputs, is_name
from precast.build.inputs.installation import normalised
from precast.build.inputs.native_noise import RANDOM, is_fact_of_host, is_noise, is_of_library
from precast.build.inputs.observation import Ask, LoadedModule, Observation
from precast.build.inputs.roots import PYTHON, TEMPORARY
from precast.build.inputs.stamp import Stamp, stamp_of

_MOST_BEFORE = 64
_SYSTEM = ("/bin/", "/etc/", "/lib/", "/lib32/", "/lib64/", "/run/", "/sbin/", "/usr/", "/var/")
_KERNEL = ("/proc/", "/sys/", "/dev/")
_UNSTEADY = ("clock", "randomness", "network", "process", "host", "undeclared")
_PATH_KINDS = ("file", "folder", "exists", "link")
_UNSTEADY_FILES = ("temporary file", "system")
_LISTING = re.compile(r"\.(dist|egg)-info/(?!METADATA$|PKG-INFO$)[^/]+$")
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# precast itself: the version in every key covers its changes. Its kernels are not in this list.
_MACHINERY = ("attach", "build", "cli", "loader", "manifests")


@dataclass(frozen=True, slots=True, order=True)
class Unsteady:
    """Something that may differ at the next compilation, so that no key can cover it, and the code that requested it.

    >>> str(Unsteady("clock", "time.time", "/kernels/norm.py", 12))
    'time.time (clock), requested at /kernels/norm.py:12'
    """

    kind: str
    what: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.what} ({self.kind})" + (f", requested at {self.file}:{self.line}" if self.file else "")


class InputRules:
    """The rules of one build. Results for modules and files are kept: variants of a kernel read the same ones."""

    def __init__(self, answers: InputAnswers) -> None:
        self._answers = answers
        self._machinery = tuple(os.path.join(_OWN, room, "") for room in _MACHINERY)
        self._modules: dict[LoadedModule, _Found] = {}
        self._databases = Databases()
        self._files: dict[tuple[str, str, bool], str] = {}
        self._before: dict[tuple[int, frozenset[str]], tuple[Observation, _Summary]] = {}

    def inputs_of(
        self, observation: Observation, given: Collection[str] = (), *, before: Observation | None = None
    ) -> tuple[Inputs, tuple[Unsteady, ...]]:
        """The inputs of a compilation with their values, and the unsteady things that it read.

        ``given`` names the variables that the variant's key covers: those of the manifest. ``before`` is what the
        parent process had read before it forked the process of the compilation. A file that changed after it was read
        raises a ChangedInputError.
        """
        variables = frozenset(given)
        with self._answers.lock:
            earlier = self._summary_before(before, variables) if before is not None else _NOTHING
            summary = self._summary(observation, variables, earlier)
            # The content of a module counts under the module's own name.
            names = summary.names - summary.covers
            return Inputs.of(self._answers.answers(names)), tuple(sorted(summary.unsteady))

    def _summary_before(self, before: Observation, given: frozenset[str]) -> _Summary:
        """The summary of an observation that many compilations share, made once."""
        key = (id(before), given)
        if key not in self._before:
            while len(self._before) >= _MOST_BEFORE:
                self._before.pop(next(iter(self._before)))
            self._before[key] = (before, self._summary(before, given, _NOTHING))
        return self._before[key][1]

    def _summary(self, observation: Observation, given: frozenset[str], earlier: _Summary) -> _Summary:
        """The summary of an observation, together with an earlier one."""
        modules = {module.name: module for module in observation.modules}
        whole = replace(
            observation,
            stamps={**earlier.stamps, **observation.stamps},
            digests={**earlier.digests, **observation.digests},
        )
        names, unsteady = {"python"}, set()
        for item in self._found(whole, given, {**earlier.modules, **modules}):
            if isinstance(item, Unsteady):
                unsteady.add(item)
            elif is_name(item):
                names.add(item)
            else:
                unsteady.add(Unsteady("unseen", item[:200], "", 0))
        return _Summary(
            names=earlier.names | names,
            unsteady=earlier.unsteady | unsteady,
            covers=earlier.covers | {self._modules[module].covers for module in observation.modules},
            modules={**earlier.modules, **modules},
            stamps=whole.stamps,
            digests=whole.digests,
        )

    def _found(
        self, observation: Observation, given: frozenset[str], modules: Mapping[str, LoadedModule]
    ) -> Iterator[str | Unsteady]:
        """The names of inputs, and unsteady things; some more than once."""
        if not observation.complete:
            yield Unsteady("unseen", "more requests than an observer records", "", 0)
        for module in observation.modules:
            if module.file is not None and module.file in observation.stamps:
                self._check(observation, module.file)
            yield from self._module(module).names
        for name in observation.missing:
            yield from self._missing(name, modules.get(name.rpartition(".")[0]))
        for ask in observation.asked:
            yield from self._asked(observation, ask, given)
        for ask in observation.native:
            yield from self._native(observation, ask, given)
        for library in observation.libraries:
            if not os.path.basename(library).startswith("libpython"):
                yield from self._file(observation, "file", library, None)
        searched = {*self._answers.roots.search, *self._answers.roots.path}
        for folder in observation.path:
            if folder and (path := os.path.abspath(folder)) not in searched:
                # The code added it to the path itself, in an unknown order: a new file may hide another.
                kind = "file" if os.path.isfile(path) else "folder"
                added = Ask(kind, path, "", 0) if self._is_temporary(path) else None
                yield from self._file(observation, kind, path, added)

    def _module(self, module: LoadedModule) -> _Found:
        if module not in self._modules:
            self._modules[module] = self._found_module(module)
        return self._modules[module]

    def _found_module(self, module: LoadedModule) -> _Found:
        name, file, _ = module
        own = f"module:{name}"
        if file is None:
            return _Found((own,))
        owner = self._answers.installation.owner(file)
        counted = (own,) if "." not in name or (owner is None and not self._is_standard(file)) else ()
        if owner is None and file == self._answers.module_file(name):
            return _Found(counted, f"file:{self._answers.roots.portable(file)}")
        name_of_file = self._name("file", file, by_author=self._is_temporary(file))
        return _Found((*counted, name_of_file) if name_of_file else counted)

    def _missing(self, name: str, parent: LoadedModule | None) -> Iterator[str]:
        """A module that was not found. Only Python or a distribution can add one inside their own packages."""
        if parent is not None and parent.file is not None:
            if self._is_standard(parent.file) or self._answers.installation.owner(parent.file) is not None:
                return
        elif "." in name and self._answers.answer(f"module:{name.partition('.')[0]}") == STANDARD:
            return
        yield f"module:{name}"

    def _asked(self, observation: Observation, ask: Ask, given: frozenset[str]) -> Iterator[str | Unsteady]:
        by_author = not ask.file or self._answers.installation.owner(ask.file) is None
        if ask.kind == "link" and self._answers.roots.is_above(ask.what):
            return  # where the checkout is does not matter
        if ask.kind in ("file", "folder") or (ask.kind in ("exists", "link") and by_author):
            yield from self._file(observation, ask.kind, ask.what, ask if by_author else None)
        elif ask.kind in ("library", "program") and ask.what.startswith("/"):
            if os.path.realpath(ask.what) == os.path.realpath(sys.executable):
                return  # the version of Python is an input already
            yield from self._file(observation, "file", ask.what, ask if by_author else None)
        elif ask.kind == "variable":
            if ask.what not in given and by_author:
                yield f"variable:{ask.what}"
        elif ask.kind == "distribution":
            yield f"distribution:{normalised(ask.what)}"
        elif by_author:
            if ask.kind in _UNSTEADY:
                yield Unsteady(*ask)
            else:
                yield ask.kind if ask.kind in ("variables", "distributions") else f"{ask.kind}:{ask.what}"

    def _native(self, observation: Observation, ask: Ask, given: frozenset[str]) -> Iterator[str | Unsteady]:
        """A request of native code or of a program that was started."""
        roots = self._answers.roots
        if is_fact_of_host(ask):
            ask = ask._replace(kind="host")
        if is_noise(ask) or ask.file.startswith(self._machinery):
            return
        if ask.kind in ("exists", "file", "link") and roots.is_above(ask.what):
            return  # a program resolves its working folder
        if ask.kind in _PATH_KINDS and self._databases.is_beside(ask.what):
            return
        if ask.kind == "file" and (log := self._databases.log_of(ask.what)) is not None:
            self._answers.forget(ask.what, log)  # its last reader empties the log into it
            yield from self._file(observation, "journal", log, ask)
        if ask.what in RANDOM:
            if is_of_library(ask.file) or self._is_standard(ask.file):
                return
            ask = ask._replace(kind="randomness")
        elif ask.kind == "exists" and os.path.dirname(ask.what) in roots.programs:
            ask = ask._replace(kind="program", what=os.path.basename(ask.what))  # a shell looks for a program
        yield from self._asked(observation, ask, given)

    def _file(self, observation: Observation, kind: str, path: str, author: Ask | None) -> Iterator[str | Unsteady]:
        """A file or folder as an input; ``author`` is the request if the author's code made it."""
        key = (kind, path, author is not None)
        if key not in self._files:
            self._files[key] = self._name(kind, path, by_author=author is not None)
        name = self._files[key]
        if author is not None and name in _UNSTEADY_FILES:
            yield Unsteady(name, path, author.file, author.line)
        elif name:
            if kind == "file":
                self._check(observation, path)
            elif kind == "exists" and path in observation.stamps:
                self._check_existence(observation, path)
            given = database_of(path) if kind == "journal" else path
            relative = self._answers.roots.working_name(path) if author and given in observation.relative else ""
            if relative:
                yield f"{kind}:{relative}"
            if not relative or not name.startswith(f"{kind}:/"):
                yield name

    def _name(self, kind: str, path: str, *, by_author: bool) -> str:
        """The name of a file or folder as an input, or a kind of unsteady files; empty if it does not count."""
        answers = self._answers
        root, _ = answers.roots.place(path)
        if root == PYTHON or path == os.devnull or path.startswith(self._machinery):
            return ""
        if path.startswith(_KERNEL):
            return "system" if by_author else ""
        if root == TEMPORARY:
            return self._temporary(kind, path) if by_author else ""
        if not by_author and _LISTING.search(path):
            return ""  # torch looks for plug-ins in all installed distributions
        owner = answers.installation.owner(path)
        if owner is not None:
            return f"distribution:{owner}"
        noise = not root and path.startswith(_SYSTEM)
        noise |= answers.roots.is_site(path) and (kind == "folder" or answers.contents.read(path).stamp is None)
        return f"{kind}:{answers.roots.portable(path)}" if by_author or not noise else ""

    def _is_temporary(self, path: str) -> bool:
        return self._answers.roots.place(path)[0] == TEMPORARY

    def _temporary(self, kind: str, path: str) -> str:
        """A temporary file that was there before the build is as any other file."""
        _, rest = self._answers.roots.place(path)
        stamp = stamp_of(path)
        made_meanwhile = stamp is not None and kind != "folder" and stamp[3] >= self._answers.began
        return "temporary file" if made_meanwhile or not rest else f"{kind}:{path}"

    def _check_existence(self, observation: Observation, path: str) -> None:
        if (observation.stamps[path] is None) != (kind_of(path) is None):
            raise changed(path)

    def _check(self, observation: Observation, path: str) -> None:
        """Raise ChangedInputError if a file has changed since the compilation read it."""
        if path in observation.stamps and not self._is_standard(path):
            installation = self._answers.installation
            owned = installation.owner(path) is not None
            now = stamp_of(path) if owned else self._answers.contents.read(path).stamp
            noted = observation.stamps[path]
            # An installer that makes another environment of hard links changes the stamps of files, not their content.
            linked = owned and noted is not None and now is not None and noted[:3] == now[:3]
            if noted == now or (linked and installation.is_as_listed(path)):
                return
            # A generator may write the same content again for each process that runs it.
            read = observation.digests.get(path)
            same = read is not None and read == hash_file(path) == self._answers.contents.read(path).digest
            if not same and not self._databases.has_log(path):
                raise changed(path)

    def _is_standard(self, file: str) -> bool:
        return self._answers.roots.place(file)[0] == PYTHON


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """The names of inputs in an observation, the unsteady things, and what a later observation builds upon."""

    names: frozenset[str] = frozenset()
    unsteady: frozenset[Unsteady] = frozenset()
    covers: frozenset[str] = frozenset()
    modules: Mapping[str, LoadedModule] = field(default_factory=dict)
    stamps: Mapping[str, Stamp | None] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


_NOTHING = _Summary()


@dataclass(frozen=True, slots=True)
class _Found:
    """A module's inputs; ``covers`` is the name of its file as an input, if its content counts already."""

    names: tuple[str, ...]
    covers: str = ""
