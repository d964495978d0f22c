"""The world of a compilation: how a process is closed, so that it finds only what its closure names.

By a new root in memory where the kernel allows namespaces; else by Landlock; else not at all, and then only requests of
Python code are refused. A worker closes itself coarsely before it imports anything, and the processes that it forks for
the modules of kernels close themselves again, each to the closure of its kernel.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import precast
from precast.build import interpreter
from precast.build.child.closed import landlock, privileges, process_state
from precast.build.child.closed.new_root import TEMPORARY, NewRoot
from precast.build.child.closed.refusals import Refusals
from precast.build.disk.scratch import scratch_folder
from precast.build.inputs.contents import Contents
from precast.build.inputs.module_finder import SITES

By = Literal["namespaces", "landlock", "none"]
VARIABLE = "PRECAST_CLOSED_BY"
"""The best means by which a process is closed: ``landlock`` or ``none``; by default whatever this kernel has."""
_HOME = "/home/precast"
_SYSTEM = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_ALWAYS = ("/proc", "/dev")  # for Landlock; a new root has parts of them


@dataclass(slots=True)
class World:
    """How a process is closed, and what all its closures have in common."""

    by: By
    system: tuple[str, ...]
    own: tuple[str, ...]
    sites: tuple[str, ...]
    search: tuple[str, ...]
    copies: dict[str, str | None] = field(default_factory=dict)  # digests by path: what this process has of them

    @classmethod
    def begin(cls, search: Iterable[str]) -> World:
        """Close this process to what any closure may have. It must be called before anything starts a thread."""
        best = os.environ.pop(VARIABLE, "namespaces")
        world = cls(
            by="namespaces",
            system=(*_SYSTEM, *_interpreter(), *_libraries()),
            own=tuple(_precast()),
            sites=tuple(dict.fromkeys(folder for folder in sys.path if os.path.basename(folder) in SITES)),
            search=tuple(search),
        )
        if best == "namespaces":
            try:
                world._enter_coarsely()
                return world
            except OSError:  # this kernel does not let this user
                pass
        world.by = "landlock" if best != "none" and landlock.version() else "none"
        _SCRATCH.append(scratch_folder(Path(tempfile.gettempdir()), "precast-scratch-"))
        folder = _SCRATCH[-1].__enter__()  # the next build removes it, when this process does not lock it any more
        (folder / "home").mkdir()
        _use_folders(str(folder / "home"), str(folder))
        os.chdir("/")
        return world

    def close(self, closure: Mapping[str, Any], *, again: bool = False) -> Refusals:
        """Close this process to one closure. ``again`` is for a second compilation: what a kernel can learn about its
        machine, as far as it can be changed, is then different."""
        if self.by != "namespaces":
            temporary = tempfile.mkdtemp()  # of this closure alone
            os.mkdir(f"{temporary}/home")
            _use_folders(f"{temporary}/home", temporary)
        if self.by == "namespaces":
            if again:
                NewRoot()  # so that numbers of namespaces and of devices are others in the next one
            self._enter(closure, "again" if again else "precast")
        elif self.by == "landlock":
            listed = [*self.search, *self.sites, *(folder for folder in sys.path if folder)]
            landlock.restrict(self._readable(closure), listed)
        process_state.reset()
        if self.by != "none":
            privileges.give_up()
        os.environ["PATH"] = ":".join(dict.fromkeys([*map(os.path.dirname, closure["programs"]), "/usr/bin", "/bin"]))
        if again:
            process_state.perturb()
        readable = None if self.by == "namespaces" else self._readable(closure)
        return Refusals(readable, closure["programs"], closure["stand_ins"]).install()

    def written(self) -> frozenset[tuple[str, int]]:
        """The files that this process, and others with the same closure, can write and read, each with the time of its
        last change."""
        folder = "/" if self.by == "namespaces" else tempfile.gettempdir()
        return frozenset(_files(folder, os.stat(folder).st_dev))

    def _readable(self, closure: Mapping[str, Any]) -> list[str]:
        temporary = [tempfile.gettempdir()]
        parts = (closure[name] for name in ("installed", "stand_ins", "declared", "sources", "programs"))
        return [*self.system, *self.own, *_ALWAYS, *temporary, *(path for part in parts for path in part)]

    def _enter_coarsely(self) -> None:
        root = NewRoot()
        for path in (*self.system, *self.own, *sys.path, *self.search):
            if path:
                root.add(path)
        root.enter("precast", keep_host=True)
        _use_folders(_HOME, TEMPORARY)

    def _enter(self, closure: Mapping[str, Any], name: str) -> None:
        root = NewRoot()
        for path in self.system:
            root.add(path, read_only=True)
        for folder in (*self.sites, os.path.join(interpreter.STANDARD, "site-packages")):
            root.hide(folder)
        for path in (*closure["installed"], *closure["stand_ins"], *self.own, *closure["programs"]):
            root.add(path, read_only=True)
        copied = [path for path in (*closure["declared"], *closure["sources"]) if root.copy(path)]
        root.enter(name)
        contents = Contents()
        self.copies = {path: contents.folder(path) or contents.file(path) for path in copied}


def _interpreter() -> Iterable[str]:
    """The interpreter, its standard library, and what it reads when it starts."""
    yield from (sys.executable, os.path.realpath(sys.executable))
    yield os.path.dirname(interpreter.STANDARD)
    yield os.path.join(sys.prefix, "pyvenv.cfg")


def _libraries() -> Iterable[str]:
    return (folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/"))


def _precast() -> Iterable[str]:
    """The folders of precast itself, which may be links of a checkout."""
    for folder in precast.__path__:
        yield from (os.path.join(folder, name) for name in sorted(os.listdir(folder)))


def _files(folder: str, disk: int) -> Iterator[tuple[str, int]]:
    for entry in os.scandir(folder):
        facts = entry.stat(follow_symlinks=False)
        if facts.st_dev != disk:
            continue  # mounted, and read-only
        if entry.is_dir(follow_symlinks=False):
            yield entry.path, 0
            yield from _files(entry.path, disk)
        else:
            yield entry.path, facts.st_ctime_ns


def _use_folders(home: str, temporary: str) -> None:
    os.environ |= {"HOME": home, "TMPDIR": temporary}
    tempfile.tempdir = None


_SCRATCH: list[AbstractContextManager[Path]] = []  # kept: at its end, a folder is removed
