"""The worker: a process that starts the DSL for one target, and forks processes that compile variants.

``precast.build.compile.worker`` starts it. A request names a function and a config; the reply has the objects.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from precast.build.child.closed.refusals import explained
from precast.build.child.closed.world import World
from precast.build.child.compiler.capture import Catcher
from precast.build.child.compiler.export_only import compile_for_export_only
from precast.build.child.compiler.select_objects import Refused
from precast.build.child.leading_imports import Step, common, of_function, of_module, run
from precast.build.child.module_process import USED, ModuleProcess, ProcessLost
from precast.build.child.requests import Requests
from precast.build.child.serve import Answer, failure, missing_module, refusal, serve
from precast.build.child.source_only import SourceOnly
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.need import replace_cuda
from precast.build.child.variant_compilation import advice_for, compile_variant, export
from precast.build.disk.scratch import TemporaryLost
from precast.build.errors import UnsteadyKernel
from precast.build.interpreter import distributions_of_packages
from precast.build.ipc.message import Message
from precast.build.ipc.process_tree import adopt_orphans
from precast.build.satellites import satellite
from precast.kernels.authoring.adapter import read_installed
from precast.kernels.authoring.registry import FunctionRef

_MODULES = 4  # modules whose processes are kept for further variants


def main() -> None:
    """Serve requests of the build."""
    serve(start, cleans_up=True)


def start(settings: Mapping[str, Any]) -> Answer:
    """Start the compiler with a GPU's profile, and return the function that compiles."""
    world = World.begin(settings["search"])
    from precast.build.child.stand_in.fake_gpu import install_fake_gpu, toolkit

    facts = FactRecorder(settings["profile"]["name"], settings["profile"]["facts"])
    install_fake_gpu(facts)
    with toolkit(int(settings["toolkit"])):
        catcher = Catcher().install()
        compile_for_export_only()
    facts.forget()  # facts that the compiler itself requests are not those of a kernel
    read_installed()  # here, since a closed process sees only the distributions of its kernel
    adopt_orphans()
    if settings["warm_up"]:
        from precast.build.child.compiler.warm_up import compile_once

        with facts.unrecorded():
            export(compile_once(), "warm_up")
        catcher.take()
    # Here, so that the requests of a library count for all variants that share its import.
    requests, sources = Requests().install(), SourceOnly().install()
    return _Modules(_Work(catcher, facts, requests, sources, world), int(settings["memory"])).answer


class _Modules:
    """The processes of the modules that were requested last. Functions of one module that import different packages
    first have a process each."""

    def __init__(self, work: _Work, memory: int) -> None:
        self._work, self._memory = work, memory
        self._processes: dict[object, ModuleProcess] = {}
        self._shared: tuple[Step, ...] = ()  # what this process has imported for several kernels
        self._leading: list[tuple[Step, ...]] = []  # of the kernels so far that could be imported
        self._closures: dict[str, Mapping[str, Any]] = {}  # as they were sent first
        self._build = os.getppid()  # now, since it may be gone when a request is read

    def answer(self, request: Mapping[str, Any]) -> Message:
        """The reply to a request, from a separate process."""
        source = FunctionRef.parse(request["source"])
        leading = self._work.leading(source)
        imports, closure = tuple(request.get("imports", ())), str(request["closure"]["id"])
        request = {**request, "closure": self._closures.setdefault(closure, request["closure"])}
        key = (source.module, leading, self._work.function_imports(source), imports, closure)
        reply = self._reply(key, request, source, leading)
        if not request.get("twice") or "error" in reply.header:
            return reply
        again = self._reply((*key, "again"), {**request, "again": True}, source, leading)
        if "error" not in again.header and again.parts == reply.parts:
            return reply
        return refusal(UnsteadyKernel.of(source, again.header.get("error")))

    def _reply(
        self, key: object, request: Mapping[str, Any], source: FunctionRef, leading: tuple[Step, ...]
    ) -> Message:
        process = self._processes.pop(key, None) or self._new_process(source, leading)
        try:
            reply = process.request(request, seconds=float(request["seconds"]), memory=self._memory, build=self._build)
        except ProcessLost as error:
            return refusal(error)
        header = dict(reply.header)
        if header.get(USED):
            process.end()
            return self._reply(key, request, source, leading)
        if header.pop("imported", True):
            self._processes[key] = process
            self._leading.append(leading)
        else:
            process.end()
        self._end_processes(_MODULES)
        return Message(header, reply.parts)

    def _new_process(self, source: FunctionRef, leading: tuple[Step, ...]) -> ModuleProcess:
        """A process for one more module. It inherits what its kernels import first, if others import it first, too."""
        if self._shared != leading[: len(self._shared)]:
            # A variant that is lost with a used worker is compiled by a new one.
            print(f"other kernels import {self._shared[-1].module} first", file=sys.stderr, flush=True)
            os._exit(1)
        several = max((common(leading, earlier) for earlier in self._leading), key=len, default=())
        if source.library:
            distributions_of_packages()  # for the facts of its kernels
            several = max(several, leading[:1], key=len)  # all users of the library import it
        self._work.import_first(source, several[len(self._shared) :])
        self._shared = max(self._shared, several, key=len)
        return ModuleProcess(self._work)

    def _end_processes(self, most: int) -> None:
        while len(self._processes) > most:
            self._processes.pop(next(iter(self._processes))).end()


class _Work:
    """The work of this worker's processes."""

    def __init__(
        self, catcher: Catcher, facts: FactRecorder, requests: Requests, sources: SourceOnly, world: World
    ) -> None:
        self._catcher, self._facts, self._requests = catcher, facts, requests
        self._sources, self._world = sources, world
        self._started = frozenset(sys.modules)  # what all kernels find imported
        self._found: dict[FunctionRef, tuple[Step, ...]] = {}

    def leading(self, source: FunctionRef) -> tuple[Step, ...]:
        """What a kernel's module imports first of installed packages, without what this process has at its start.

        The whole of an attached library counts as installed: its users do not edit it.
        """
        if source not in self._found:
            top = source.module.partition(".")[0]
            steps = of_module(source.module, (top,) if source.library else ())
            needed = [Step(top), *steps] if source.library else steps
            self._found[source] = tuple(step for step in needed if not self._is_there(step))
        return self._found[source]

    def function_imports(self, source: FunctionRef) -> tuple[Step, ...]:
        """What a kernel's function imports first of installed packages."""
        return () if source.library else of_function(source.module, source.function)

    def _is_there(self, step: Step) -> bool:
        """Whether all kernels find it imported."""
        return step.module in self._started and vars(sys.modules[step.module]).keys() >= set(step.names)

    def import_first(self, source: FunctionRef, steps: Sequence[Step]) -> None:
        """Import packages for several kernels."""
        if steps:
            replace_cuda(source)
            with _prepared(source):
                run(steps)

    def load(self, request: Mapping[str, Any]) -> None:
        """Close this process to what the request may read, and import its module, the modules that its declaration
        lists, and what its function imports."""
        from precast.kernels.authoring.registry import load

        self._world.close(request["closure"], again=bool(request.get("again")))
        source = FunctionRef.parse(request["source"])
        replace_cuda(source)
        load(source)
        for name in request.get("imports", ()):
            with suppress(ImportError):  # the function itself reports what is missing
                importlib.import_module(name)
        run(self.function_imports(source))

    def hold_sources(self, files: Sequence[str]) -> None:
        """Compile what the processes of earlier variants have compiled from source."""
        self._sources.hold(files)

    def written(self) -> frozenset[tuple[str, int]]:
        """The files that processes of this module can write and read."""
        return self._world.written()

    def compile(self, request: Mapping[str, Any]) -> Message:
        """Compile a variant."""
        started = time.perf_counter()
        try:
            self._requests.begin()
            with self._catcher.ptx.folder():
                reply, parts = compile_variant(request, self._catcher, self._facts, self._requests)
        except Refused as error:  # the message needs no traceback
            return refusal(error)
        except (Exception, SystemExit) as error:
            lost = {"temporary_lost": True} if isinstance(error, TemporaryLost) else {}
            return failure(explained(error), **lost, **missing_module(error))
        reply |= {"seconds": time.perf_counter() - started, "closed": self._world.by, "copies": self._world.copies}
        reply["sources"] = self._sources.files
        reply["advice"] = advice_for(request, reply) if request.get("first") else ""
        return Message(reply, parts)


@contextmanager
def _prepared(source: FunctionRef) -> Iterator[None]:
    """For an attached library, what its own processes do before they import it; its variables are no other's."""
    if not source.library:
        yield
        return
    environment, before = os.environ, set(os.environ)
    try:
        satellite("precast.attach.builder.child.seam").prepare_library(source.library)
        yield
    finally:
        for variable in environment.keys() - before:
            del environment[variable]


if __name__ == "__main__":
    main()
