"""The observer: records what a process reads while it imports a kernel's module and compiles a variant.

It is installed in a fresh fork, before the module is imported: everything that this process reads belongs to its one
compilation. Each request is recorded with the location of the code that made it, and
``precast.build.inputs.input_rules`` decides which requests count.

The location is the innermost frame outside of the standard library and precast; in a thread that runs the standard
library alone, as ``ThreadPoolExecutor.map(Path.read_text, ...)`` does, it is that of the code that started the thread.
Requests of the standard library during the import of one of its own modules have no location and are not recorded, nor
are random names of temporary files.

What native code and other programs read is recorded by ``precast.build.child.observe.native``, if the observer's
library is loaded; otherwise, only that a program is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from threading import get_ident
from typing import Any

from precast.build.child.observe.code_locations import is_installed, is_standard
from precast.build.child.observe.hooks.audit_events import absolute, audit_handlers
from precast.build.child.observe.import_calls import importing, in_module_code
from precast.build.child.observe.loaded_modules import LoadedModules, NoFinder, loaded_libraries
from precast.build.child.observe.native.native_observer import GivenLog, NativeObserver
from precast.build.child.observe.record import Record, Row
from precast.build.child.observe.requester import Requester
from precast.build.child.observe.source_only import SourceOnly
from precast.build.child.observe.written_files import WrittenFiles
from precast.build.inputs.stamp import Stamp, is_folder


class Observer:
    """Records the requests of this process after ``install``, which cannot be undone.

    >>> observer = Observer()
    >>> sorted(observer.observed())
    ['asked', 'complete', 'digests', 'libraries', 'missing', 'modules', 'native', 'path', 'relative', 'stamps']
    """  # words: allow

    def __init__(self) -> None:
        self._record = Record()
        self._recent: set[tuple[str, str, str]] = set()  # since begin()
        self._files: set[str] = set()  # that were opened
        self._settled: set[str] = set()  # of these, installed ones of which no further request says more
        self._imported: set[str] = set()  # of these, by the import system
        self._libraries: set[str] = set()
        self._loads = 0  # of libraries, when they were read last
        self.written = WrittenFiles()
        self._source_only = SourceOnly()
        self._requester = Requester()
        self._reading = 0  # the thread whose reads do not count
        self._modules = LoadedModules()
        self._native: NativeObserver | None = None

    def install(self, *, started: bool = False) -> Observer:
        """Start to record. From now on, modules outside of installed distributions are compiled from their source.

        In a Python that an observed process has ``started``, all requests are written to the log of that process.
        """
        from precast.build.child.observe.hooks.distribution_reads import watch_distributions
        from precast.build.child.observe.hooks.environment_reads import watch_environment
        from precast.build.child.observe.hooks.file_checks import watch_file_checks
        from precast.build.child.observe.hooks.host_queries import watch_host_queries
        from precast.build.child.observe.hooks.process_starts import watch_processes
        from precast.build.child.observe.hooks.unsteady_calls import watch_unsteady_calls

        self._source_only.install(self._modules.seek)
        self._native = NativeObserver.join() if started else NativeObserver.start()
        for name in ("sitecustomize", "usercustomize"):  # Python imports these two before it runs anything
            if name not in sys.modules:
                self._miss(name)
        sys.meta_path.insert(0, NoFinder(self._modules.seek))
        sys.meta_path.append(NoFinder(self._miss))
        watch_distributions(self.note)
        watch_environment(self.note)
        watch_file_checks(self._check)
        watch_host_queries(self.note)
        watch_processes(self.start_process, self.end_start)
        watch_unsteady_calls(self.note)
        if not started:
            self._modules.prepare()
        handlers = audit_handlers(self)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            handler = handlers.get(event)
            if handler is not None:
                try:
                    handler(*arguments)
                except Exception:  # an error here would become the caller's
                    self._record.complete = False
                    if self._native is not None and self._native.forwards:
                        self._native.forward("incomplete", event)

        sys.addaudithook(hook)
        return self

    def note(self, kind: str, what: str) -> None:
        """Record a request of the running code."""
        self._counts(kind, what)

    def _counts(self, kind: str, what: str) -> bool:
        """Record a request of the running code, and return whether it counts."""
        location = self._location()
        if location is not None:
            self._note(kind, what, *location)
        return location is not None

    def new_log(self) -> GivenLog:
        """A log of native code for a process that is forked next, which has recorded what this process has so far."""
        self._collect()
        return GivenLog(self._native)

    def begin(self) -> None:
        """Start to note which variables are read from here on, whether or not they were read before."""
        self._recent.clear()

    @property
    def recent(self) -> frozenset[tuple[str, str, str]]:
        """The requests for variables since ``begin``, without those of modules that were imported then: kind, what,
        and the file of the code."""
        return frozenset(self._recent)

    @property
    def requests(self) -> frozenset[tuple[str, str, str]]:
        """All requests so far, in the same form."""
        return frozenset((kind, what, file) for kind, what, file, _ in self._record.requests)

    @property
    def sources(self) -> tuple[str, ...]:
        """The files of modules that were compiled from source."""
        return self._source_only.files

    def hold_sources(self, files: Iterable[str]) -> None:
        """Compile the ``sources`` of a fork of this process, which the next ones are likely to import."""
        with self._hidden():
            self._source_only.hold(files)

    def observed(self) -> dict[str, Any]:
        """The requests since the last call, as JSON, and Python's path at this moment.

        In a process that was forked after a call, these are only its own requests.
        """
        self._collect()
        modules = self._modules.new_rows()
        self._record.complete &= self._modules.complete
        for path in self._imported - self._modules.files:  # a module that failed to import, or was run by a path
            self._note("file", path, "", 0)
        for _, file, _ in modules:
            if file is not None and not is_installed(file) and not is_standard(file):
                self._add_state(file)
        libraries = self._new_libraries()
        barred = self._native.is_barred if self._native is not None else lambda _: False
        return {
            **self._record.new_requests(self._is_made_here, barred),
            "modules": [list(item) for item in modules],
            "libraries": sorted(libraries),
            "path": [item for item in sys.path if isinstance(item, str) and self._record.texts(item)],
            "complete": self._record.complete,
        }

    def _new_libraries(self) -> set[str]:
        """The libraries that were mapped since the last call."""
        loads = self._native.loads if self._native is not None else 0
        if loads and loads == self._loads:
            return set()  # reading the map of a process with the compiler takes milliseconds
        libraries = loaded_libraries() - self._libraries - {self._native.library if self._native else ""}
        self._loads = loads
        self._libraries |= libraries
        return libraries

    def _collect(self) -> None:
        """Read what native code and other programs have requested."""
        if self._native is None or self._native.forwards:
            return
        requests = self._native.read()
        self._record.complete &= self._native.complete and requests.complete
        for row in requests.python:
            self._note(*row)
        self._record.add_native(requests.native)
        for path, stamp in requests.stamps.items():
            if self._record.texts(path):
                self._add_state(path, stamp)
        self._record.missing.update(dict.fromkeys(requests.missing))
        self._record.relative.update(dict.fromkeys(requests.relative))

    def _is_made_here(self, item: Row) -> bool:
        """Whether this process made a file that it had queried in vain, or removed one that it had queried: the next
        process finds another state. What a program made before this process read it depends on other inputs."""
        if item[0] in ("exists", "folder") and self.written.is_removed(item[1]):
            return True
        if item[0] == "file" and self._native is not None and self._native.is_result(item[1]):
            return True
        if item[0] in ("file", "exists"):
            absent = self._record.states.stamps.get(item[1]) is None
            return absent and (item[1] in self.written or self._is_made_by_others(item[1]))
        return item[0] == "program" and self._is_made_by_others(item[1])

    def _is_made_by_others(self, name: str) -> bool:
        return self._native is not None and self._native.is_made(name)

    def _add_state(self, name: str, read: Stamp | None = None) -> None:
        """Take the state of a file, unless it was taken before. That this reads it does not count."""
        if name in self._record.states.stamps:
            return
        with self._hidden():
            self._record.states.add(name, read)

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """What this thread reads meanwhile does not count."""
        self._reading = get_ident()
        try:
            with self._native.hidden() if self._native is not None else nullcontext():
                yield
        finally:
            self._reading = 0

    def _miss(self, name: str) -> None:
        if self._native is not None and self._native.forwards:
            self._native.forward("missing", name)
        else:
            self._record.missing[name] = None

    def _note(self, kind: str, what: str, file: str, line: int) -> None:
        if self._native is not None and self._native.forwards:
            self._native.forward(kind, what, file, line)
        elif self._record.ask(kind, what, file, line) and kind == "variable" and not in_module_code():
            self._recent.add((kind, what, file))

    def _location(self) -> tuple[str, int] | None:
        return self._requester.location(started=self._native is not None and self._native.started)

    def open_file(self, path: Any, mode: Any, flags: int, *rest: Any) -> None:
        """The running code opens a file."""
        if isinstance(path, int) or self._reading == get_ident():
            return
        is_import = importing()
        if is_import and isinstance(path, str) and path.endswith(".pyc") and not flags & (os.O_WRONLY | os.O_RDWR):
            return
        reads_only = not flags & (os.O_WRONLY | os.O_RDWR)
        is_other = self._native is not None and self._native.forwards
        if reads_only and not is_other and isinstance(path, str) and path in self._settled:
            return
        name = self._absolute(path)
        self.written.open(name, flags)
        if self._native is not None:
            if not os.path.isabs(os.fsdecode(path)) and self._location() is not None:
                return  # it may be relative to another folder (dir_fd), which only the library sees
            self._native.saw(name)
        if flags & os.O_WRONLY or name in self.written or not self._record.texts(name):
            return  # files that it wrote itself are not inputs
        if name not in self._files and is_folder(name):
            self.note("exists", name)  # a list of its names is another request
            return
        self._files.add(name)
        if is_import and self._native is not None and self._native.forwards:
            self._native.forward("file", name)
        elif is_import:
            self._imported.add(name)
        elif self._counts("file", name) and path == name and is_installed(name):
            self._settled.add(name)
        self._add_state(name)

    def open_database(self, path: Any, *rest: Any) -> None:
        """The running code opens a database: the library sees which files that means."""
        if self._native is None:
            self.open_file(path, None, os.O_RDONLY)

    def check_existence(self, path: Any, *rest: Any) -> None:
        """The running code does something that fails if a file does not exist."""
        if not isinstance(path, int):
            self._check("exists", os.fsdecode(path))

    def _check(self, kind: str, what: str) -> None:
        """The code checks a file without opening it."""
        if kind in ("program", "clock", "host"):
            self.note(kind, what)
            return
        name = self._absolute(what)
        if name in self.written or not self._record.texts(name):
            return
        if kind == "status":  # its size, its times and its kind
            kind = "file" if os.path.isfile(name) else "exists"
        self.note(kind, name)
        self._add_state(name)

    def start_program(self, name: Any) -> None:
        """The running code starts a program."""
        text = os.fsdecode(name)
        self.note("program", absolute(text) if "/" in text else text)
        self.start_process(text)

    def start_shell(self, line: str) -> None:
        """The running code starts a shell. Which programs that starts is observed, or the first one is assumed."""
        if self._native is None:
            self.start_program(line.strip().partition(" ")[0] or "sh")
        self.start_program("/bin/sh")

    def start_process(self, what: str) -> None:
        """The running code starts a process. If what it reads is not observed, that it is started counts."""
        if self._native is None:
            self.note("process", what)
        else:
            self._native.starts_program(self._location())

    def end_start(self) -> None:
        """A process was started; what the running code starts next has another origin."""
        if self._native is not None:
            self._native.ends_start()

    def start_thread(self, function: Any) -> None:
        """The running code starts a thread that runs this function."""
        self._requester.add_thread(function, self._location())

    def list_folder(self, path: Any = None, *rest: Any) -> None:
        """The running code lists a folder."""
        if path is None or path == "":
            path = os.curdir
        elif isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        if not importing():
            self.note("folder", self._absolute(path))

    def _absolute(self, path: Any) -> str:
        """The absolute path of a file that the running code names; one that is relative depends on where the build
        was started."""
        name = absolute(path)
        if not os.path.isabs(os.fsdecode(path)) and not (self._native is not None and self._native.moved):
            if self._native is not None and self._native.forwards:
                self._native.forward("relative", name)
            elif self._location() is not None:
                self._record.relative[name] = None
        return name
