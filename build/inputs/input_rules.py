"""Input rules: which of the things that a compilation read are its inputs, and which can be no input of any key.

Who asked decides. What the author's code asks for counts always: code in the manifest's search folders, in editable
installs, in folders of ``PYTHONPATH`` and ``.pth`` files, and files put into site-packages by hand.

Code of an installed distribution (a ``RECORD`` lists it) asks for much wherever it is imported, as torch, numpy and the
DSL do. From there these are noise: the clock, randomness, the network; files, folders, programs and libraries of the
system, ``/proc`` and ``/sys``; temporary files; variables, which a worker has only few of (``child_environment``); and
the lists of what is installed. Its other files count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from precast.build.inputs.contents import changed
from precast.build.inputs.input_answers import STANDARD, InputAnswers
from precast.build.inputs.inputs import Inputs, is_name
from precast.build.inputs.installation import normalised
from precast.build.inputs.observation import Ask, LoadedModule, Observation
from precast.build.inputs.roots import PYTHON, TEMPORARY
from precast.build.inputs.stamp import Stamp, stamp_of

_MOST_BEFORE = 64
_SYSTEM = ("/bin/", "/etc/", "/lib/", "/lib32/", "/lib64/", "/run/", "/sbin/", "/usr/", "/var/")
_KERNEL = ("/proc/", "/sys/", "/dev/")
_UNSTEADY_FILES = ("temporary file", "system")
_LISTING = re.compile(r"\.(dist|egg)-info/(?!METADATA$|PKG-INFO$)[^/]+$")
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# precast itself, whose changes the version in every key covers. Its kernels are not in this list.
_MACHINERY = ("build", "cli", "loader", "manifests")


@dataclass(frozen=True, slots=True, order=True)
class Unsteady:
    """Something that is not the same at the next compilation, so that no key can cover it, and who asked for it.

    >>> str(Unsteady("clock", "time.time", "/kernels/norm.py", 12))
    'time.time (clock), asked for at /kernels/norm.py:12'
    """

    kind: str
    what: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.what} ({self.kind})" + (f", asked for at {self.file}:{self.line}" if self.file else "")


class InputRules:
    """The rules of one build. What they say of a module or a file is kept: variants of a kernel read the same ones."""

    def __init__(self, answers: InputAnswers) -> None:
        self._answers = answers
        own = answers.roots.interpreter.precast
        own = os.path.join(own, "precast") if own else _OWN
        self._machinery = tuple(os.path.join(own, room, "") for room in _MACHINERY)
        self._modules: dict[LoadedModule, _Found] = {}
        self._files: dict[tuple[str, str, bool], str] = {}
        self._before: dict[tuple[int, frozenset[str]], tuple[Observation, _Summary]] = {}

    def inputs_of(
        self, observation: Observation, given: Collection[str] = (), *, before: Observation | None = None
    ) -> tuple[Inputs, tuple[Unsteady, ...]]:
        """The inputs of a compilation with their answers, and what can be no input.

        ``given`` names the variables that the variant's key covers: those of the manifest. ``before`` is what the
        process had read that the compilation's own was forked from. A file that changed after it was read raises a
        ChangedInputError.
        """
        variables = frozenset(given)
        with self._answers.lock:
            earlier = self._summary_before(before, variables) if before is not None else _NOTHING
            found = self._summary(observation, variables, earlier)
            # The content of a module counts under the module's own name.
            names = found.names - found.covers
            return Inputs.of(self._answers.answers(names)), tuple(sorted(found.unsteady))

    def _summary_before(self, before: Observation, given: frozenset[str]) -> _Summary:
        """The summary of what many compilations share, made once."""
        key = (id(before), given)
        if key not in self._before:
            while len(self._before) >= _MOST_BEFORE:
                self._before.pop(next(iter(self._before)))
            self._before[key] = (before, self._summary(before, given, _NOTHING))
        return self._before[key][1]

    def _summary(self, observation: Observation, given: frozenset[str], earlier: _Summary) -> _Summary:
        """What an observation says, together with an earlier one."""
        modules = {module.name: module for module in observation.modules}
        whole = replace(observation, stamps={**earlier.stamps, **observation.stamps})
        names, unsteady = {"python"}, set()
        for one in self._found(whole, given, {**earlier.modules, **modules}):
            if isinstance(one, Unsteady):
                unsteady.add(one)
            elif is_name(one):
                names.add(one)
            else:
                unsteady.add(Unsteady("unseen", one[:200], "", 0))
        return _Summary(
            names=earlier.names | names,
            unsteady=earlier.unsteady | unsteady,
            covers=earlier.covers | {self._modules[module].covers for module in observation.modules},
            modules={**earlier.modules, **modules},
            stamps=whole.stamps,
        )

    def _found(
        self, observation: Observation, given: frozenset[str], modules: Mapping[str, LoadedModule]
    ) -> Iterator[str | Unsteady]:
        """The names of inputs, and what can be none; some more than once."""
        if not observation.complete:
            yield Unsteady("unseen", "more than an observer records", "", 0)
        for module in observation.modules:
            if module.file is not None and module.file in observation.stamps:
                self._check(observation, module.file)
            yield from self._module(module).names
        for name in observation.missing:
            yield from self._missing(name, modules.get(name.rpartition(".")[0]))
        for ask in observation.asked:
            yield from self._asked(observation, ask, given)
        for library in observation.libraries:
            if not os.path.basename(library).startswith("libpython"):
                yield from self._file(observation, "file", library, None)
        known = {*self._answers.roots.search, *self._answers.roots.path}
        for folder in observation.path:
            if folder and (path := os.path.abspath(folder)) not in known and os.path.exists(path):
                # The code put it there itself, so that no rule knows the order: a new file may stand before another.
                yield from self._file(observation, "folder" if os.path.isdir(path) else "file", path, None)

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
        name_of_file = self._name("file", file, by_author=False)
        return _Found((*counted, name_of_file) if name_of_file else counted)

    def _missing(self, name: str, parent: LoadedModule | None) -> Iterator[str]:
        """A name that nobody found. Inside a module of Python or of a distribution only these can add it."""
        if parent is not None and parent.file is not None:
            if self._is_standard(parent.file) or self._answers.installation.owner(parent.file) is not None:
                return
        elif "." in name and self._answers.answer(f"module:{name.partition('.')[0]}") == STANDARD:
            return
        yield f"module:{name}"

    def _asked(self, observation: Observation, ask: Ask, given: frozenset[str]) -> Iterator[str | Unsteady]:
        by_author = not ask.file or self._answers.installation.owner(ask.file) is None
        if ask.kind in ("file", "folder"):
            yield from self._file(observation, ask.kind, ask.what, ask if by_author else None)
        elif ask.kind in ("library", "program") and ask.what.startswith("/"):
            yield from self._file(observation, "file", ask.what, ask if by_author else None)
        elif ask.kind == "variable":
            if ask.what not in given and by_author:
                yield f"variable:{ask.what}"
        elif ask.kind == "distribution":
            yield f"distribution:{normalised(ask.what)}"
        elif by_author:
            if ask.kind == "distributions":
                sites = filter(os.path.isdir, self._answers.roots.sites)
                yield from (f"folder:{self._answers.roots.portable(folder)}" for folder in sites)
            elif ask.kind in ("clock", "randomness", "network"):
                yield Unsteady(*ask)
            else:
                yield "variables" if ask.kind == "variables" else f"{ask.kind}:{ask.what}"

    def _file(self, observation: Observation, kind: str, path: str, author: Ask | None) -> Iterator[str | Unsteady]:
        """What a file or folder is as an input; ``author`` is the author's request for it, if it was one."""
        key = (kind, path, author is not None)
        if key not in self._files:
            self._files[key] = self._name(kind, path, by_author=author is not None)
        name = self._files[key]
        if author is not None and name in _UNSTEADY_FILES:
            yield Unsteady(name, path, author.file, author.line)
        elif name:
            if kind == "file":
                self._check(observation, path)
            yield name

    def _name(self, kind: str, path: str, *, by_author: bool) -> str:
        """The name of a file or folder as an input; a kind of unsteady files; or nothing, where it does not count."""
        answers = self._answers
        root, _ = answers.roots.place(path)
        if root == PYTHON or path == os.devnull or path.startswith(self._machinery):
            return ""
        if path.startswith(_KERNEL) or root == TEMPORARY:
            return ("temporary file" if root == TEMPORARY else "system") if by_author else ""
        if not by_author and _LISTING.search(path):
            return ""  # torch looks for plug-ins among all that is installed
        owner = answers.installation.owner(path)
        if owner is not None:
            return f"distribution:{owner}"
        noise = not root and path.startswith(_SYSTEM)
        noise |= answers.roots.is_site(path) and (kind == "folder" or answers.contents.read(path).stamp is None)
        return f"{kind}:{answers.roots.portable(path)}" if by_author or not noise else ""

    def _check(self, observation: Observation, path: str) -> None:
        """Raise unless a file is still what the compilation read."""
        if path in observation.stamps and not self._is_standard(path):
            installation = self._answers.installation
            owned = installation.owner(path) is not None
            now = stamp_of(path) if owned else self._answers.contents.read(path).stamp
            noted = observation.stamps[path]
            # An installer that makes another environment out of hard links changes the facts of files, not the files.
            linked = owned and noted is not None and now is not None and noted[:3] == now[:3]
            if noted != now and not (linked and installation.is_as_listed(path)):
                raise changed(path)

    def _is_standard(self, file: str) -> bool:
        return self._answers.roots.place(file)[0] == PYTHON


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """What an observation says: the names of inputs, and what can be none; and what a later one builds upon."""

    names: frozenset[str] = frozenset()
    unsteady: frozenset[Unsteady] = frozenset()
    covers: frozenset[str] = frozenset()
    modules: Mapping[str, LoadedModule] = field(default_factory=dict)
    stamps: Mapping[str, Stamp | None] = field(default_factory=dict)


_NOTHING = _Summary()


@dataclass(frozen=True, slots=True)
class _Found:
    """A module's inputs; ``covers`` is the name that its file would have, if its content counts already."""

    names: tuple[str, ...]
    covers: str = ""
