"""The worker: a process that starts the DSL for one target, and forks processes that compile variants.

``precast.build.compile.worker`` starts it. A request names a function and a config; the reply has the objects.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precast.build.child.compiler.capture import Catcher, Caught
from precast.build.child.compiler.export_only import compile_for_export_only
from precast.build.child.compiler.keep_ptx import text_of
from precast.build.child.compiler.select_objects import Refused, select_objects, select_returned
from precast.build.child.declaration_check import advice, wrong_names
from precast.build.child.module_process import ModuleProcess, ProcessLost
from precast.build.child.observe.kernel_facts import kernel_facts
from precast.build.child.observe.native.native_observer import GivenLog
from precast.build.child.observe.observer import Observer
from precast.build.child.patches import Patches
from precast.build.child.serve import Answer, failure, refusal, serve
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.need import needs_fake_cuda, replace_cuda
from precast.build.disk.scratch import TemporaryLost
from precast.build.ipc.message import Message
from precast.build.ipc.process_tree import adopt_orphans
from precast.kernels.authoring.adapter import read_installed
from precast.kernels.authoring.registry import FunctionRef
from precast.loader.attach import library_named
from precast.loader.contract.format.signature import Signature

_SITES = frozenset({"site-packages", "dist-packages"})
_MODULES = 4  # modules whose processes are kept for further variants


def main() -> None:
    """Serve requests of the build."""
    serve(start, cleans_up=True)


def start(settings: Mapping[str, Any]) -> Answer:
    """Start the compiler with a GPU's profile, and return the function that compiles."""
    from precast.build.child.stand_in.fake_gpu import install_fake_gpu, toolkit

    facts = FactRecorder(settings["profile"]["name"], settings["profile"]["facts"])
    install_fake_gpu(facts)
    with toolkit(int(settings["toolkit"])):
        catcher = Catcher().install()
        compile_for_export_only()
    facts.forget()  # facts that the compiler itself requests are not those of a kernel
    read_installed()  # before the observer is installed: what this reads is not an input of a kernel
    adopt_orphans()
    if settings["warm_up"]:
        from precast.build.child.compiler.warm_up import compile_once

        with facts.unrecorded():
            _export(compile_once(), "warm_up")
        catcher.take()
    # The observer starts here, so that the reads of a library count for all variants that share its import.
    return _Modules(_Work(catcher, facts, Observer().install()), int(settings["memory"])).answer


class _Modules:
    """The processes of the modules that were requested last."""

    def __init__(self, work: _Work, memory: int) -> None:
        self._work, self._memory = work, memory
        self._processes: dict[str, ModuleProcess] = {}
        self._imported: list[tuple[Sequence[str], Mapping[str, Any]]] = []
        self._build = os.getppid()  # now, since it may be gone when a request is read

    def answer(self, request: Mapping[str, Any]) -> Message:
        """The reply to a request, from a separate process."""
        module = FunctionRef.parse(request["source"]).module
        process = self._processes.pop(module, None) or self._new_process(request)
        try:
            reply = process.request(request, seconds=float(request["seconds"]), memory=self._memory, build=self._build)
        except ProcessLost as error:
            return refusal(error)
        header = {**reply.header, "process": process.pid}
        self._imported.append((header.pop("imported", ()), request))
        if "observed_before" in header or "observed" in header:
            self._processes[module] = process
        else:
            process.end()  # it could not import its module
        self._end_processes(_MODULES)
        return Message(header, reply.parts)

    def _new_process(self, request: Mapping[str, Any]) -> ModuleProcess:
        """A process for one more module. It inherits what its kernels will import, and what others imported."""
        self._work.import_library(request)
        for names, earlier in self._imported:
            self._work.import_shared(names, earlier)
        self._imported.clear()
        self._work.end_if_patched()
        return ModuleProcess(self._work)

    def _end_processes(self, most: int) -> None:
        while len(self._processes) > most:
            self._processes.pop(next(iter(self._processes))).end()


class _Work:
    """The work of this worker's processes."""

    def __init__(self, catcher: Catcher, facts: FactRecorder, observer: Observer) -> None:
        self._catcher, self._facts, self._observer = catcher, facts, observer
        self._tried: set[str] = set()
        self._patches = Patches()
        self._accepted: tuple[str, ...] = ()  # the patches that all kernels of this process have

    def load(self, request: Mapping[str, Any]) -> None:
        """Import the module of a request, and the modules of its own package that its declaration lists."""
        from precast.kernels.authoring.registry import load

        replace_cuda(FunctionRef.parse(request["source"]))
        load(FunctionRef.parse(request["source"]))
        for name in request.get("imports", ()):
            with suppress(ImportError):  # the function itself reports what is missing
                importlib.import_module(name)

    def import_shared(self, names: Sequence[str], request: Mapping[str, Any]) -> None:
        """Import the installed packages that a process has imported, since that takes seconds for a library.

        The kernel's own package is never imported here: side effects of one of its modules must not affect the others.
        An attached library is, as a whole: its users do not edit it.
        """
        source = FunctionRef.parse(request["source"])
        replace_cuda(source)
        package = "" if source.library else source.module.partition(".")[0]
        untried = [n for n in names if n not in self._tried and n.partition(".")[0] not in (package, "__main__")]
        self._tried.update(untried)
        with _prepared(source):
            for name in untried:
                if name not in sys.modules and _is_installed(name):
                    with suppress(Exception, SystemExit):
                        importlib.import_module(name)

    def import_library(self, request: Mapping[str, Any]) -> None:
        """Import the package of an attached library, as each of its modules does first; it may patch the compiler."""
        source = FunctionRef.parse(request["source"])
        top = source.module.partition(".")[0]
        if source.library and top not in sys.modules:
            self.import_shared([top], request)
            self.accept_patches()

    def shareable(self, names: list[str]) -> list[str]:
        """All, or none if this process has patched the compiler: any of them may be the cause."""
        return names if not names or self._patches.changes() == self._accepted else []

    def accept_patches(self) -> None:
        """From now on, the patches so far are the state that all variants of this process have."""
        self._accepted = self._patches.changes()

    def end_if_patched(self) -> None:
        """End this process if its imports have patched the compiler, although each alone did not: a variant that is
        lost with a used worker is compiled by a new one."""
        if (changes := self._patches.changes()) != self._accepted:
            print(f"imports of several kernels together changed {', '.join(changes[:3])}", file=sys.stderr, flush=True)
            os._exit(1)

    def observed(self) -> Mapping[str, Any]:
        """The requests of this process since the last call."""
        return self._observer.observed()

    def new_log(self) -> GivenLog:
        """A log of what native code requests, for the process that is forked next."""
        return self._observer.new_log()

    def compile(self, request: Mapping[str, Any]) -> Message:
        """Compile a variant."""
        started = time.perf_counter()
        try:
            self._observer.begin()
            with self._catcher.ptx.folder():
                reply, parts = _compile(request, self._catcher, self._facts, self._observer)
        except Refused as error:  # the message needs no traceback
            return refusal(error)
        except (Exception, SystemExit) as error:
            return failure(error, **({"temporary_lost": True} if isinstance(error, TemporaryLost) else {}))
        reply |= {"observed": self._observer.observed(), "seconds": time.perf_counter() - started}
        reply["advice"] = _advice(request, reply) if request.get("first") else ""
        return Message(reply, parts)


@contextmanager
def _prepared(source: FunctionRef) -> Iterator[None]:
    """For an attached library, what its own processes do before they import it; its variables are no other's."""
    if not source.library:
        yield
        return
    from precast.kernels.adapters.seam import prepare_library

    environment, before = os.environ, set(os.environ)
    try:
        prepare_library(source.library)
        yield
    finally:
        for variable in environment.keys() - before:
            del environment[variable]


def _is_installed(name: str) -> bool:
    """Whether a module is part of Python or of an installed package, and not one that an author edits."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    with suppress(ImportError, ValueError, AttributeError):
        spec = find_spec(top)
        paths = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
        return any(part in _SITES for path in paths for part in Path(path).parts)
    return False


def _compile(
    request: Mapping[str, Any], catcher: Any, facts: Any, observer: Observer
) -> tuple[dict[str, Any], list[bytes]]:
    from precast.kernels.authoring.declare import argument_names, declaration_of, is_declared, outputs_of, plan_of
    from precast.kernels.authoring.registry import load
    from precast.loader.contract.recordings.return_structure import numbered

    source = FunctionRef.parse(request["source"])
    function = load(source)
    catcher.take()  # what its module compiled when it was imported
    returned = _returned_by(function, request["config"], on_no_gpu=needs_fake_cuda(source))
    symbols = request["symbols"]
    compiled = catcher.take()
    form = None
    if source.library:
        caught, form = select_returned(compiled, returned, source=source)
        symbols = [numbered(symbols[0], number, "_") for number in range(len(caught))]
    else:
        caught = select_objects(compiled, returned, source=source, expected=len(symbols))
    names = argument_names(function, request["config"])
    signatures, objects, ptx = [], [], []
    for part, (item, symbol) in enumerate(zip(caught, symbols, strict=True)):
        if item.signature is None:
            raise Refused(f"{source} compiled without TVM-FFI: pass options='--enable-tvm-ffi' to cute.compile")
        signature = item.signature.renamed(names)
        if is_declared(function) and (wrong := wrong_names(declaration_of(function), signature, part)):
            raise Refused(f"{source}: {wrong}")
        signatures.append(signature.writing(outputs_of(function, part)).to_json())
        objects.append(_export(item.compiled, symbol))
        ptx.append(text_of(item.compiled, item.ptx))
    launch_plan = plan_of(function, request["config"])
    reply = {
        "signatures": signatures,
        "ptx": ptx,
        "launch_plan": launch_plan.to_json() if launch_plan else None,
        "assumed": facts.requested(),
        "native": _native(caught) if source.library else None,
        "returns": form,
        "facts": _kernel_facts(request, observer) if source.library else None,
    }
    return reply, objects


def _advice(request: Mapping[str, Any], reply: Mapping[str, Any]) -> str:
    """What the author of a declared kernel should correct or add."""
    from precast.kernels.authoring.declare import declaration_of, is_declared
    from precast.kernels.authoring.registry import load
    from precast.loader.contract.format.config import to_value

    function = load(FunctionRef.parse(request["source"]))
    if not is_declared(function):
        return ""
    config = {name: to_value(value) for name, value in request["config"].items()}
    return advice(declaration_of(function), config, Signature.parse(reply["signatures"][0]))


def _kernel_facts(request: Mapping[str, Any], observer: Observer) -> dict[str, Any]:
    """What decided the kernel of an attached library beside its key."""
    source = FunctionRef.parse(request["source"])
    library = library_named(source.library)
    return kernel_facts(
        _roots_of(source),
        library.package,
        request["config"],
        requests=observer.requests,
        compiling=observer.recent,
        by_module=library.by_module,
    ).to_json()


def _roots_of(source: FunctionRef) -> list[object]:
    """A function; of a method, also its class."""
    roots: list[Any] = [sys.modules[source.module]]
    for name in source.function.split("."):
        roots.append(getattr(roots[-1], name, None))
    return roots[1:]


def _returned_by(function: Any, config: Mapping[str, Any], *, on_no_gpu: bool) -> Any:
    """The return value of a function. One that does not use precast may launch its kernel: it is stopped there."""
    from precast.kernels.adapters.first_launch import compiled_until_launch
    from precast.kernels.authoring.declare import is_declared
    from precast.kernels.authoring.schema import call

    if is_declared(function):
        with _on_no_gpu() if on_no_gpu else nullcontext():
            return call(function, config)
    return compiled_until_launch(lambda: call(function, config), tensors=_on_no_gpu)


@contextmanager
def _on_no_gpu() -> Iterator[None]:
    from precast.build.child.record_main import without_gpu
    from precast.build.child.stand_in.fake_cuda import install_fake_cuda

    install_fake_cuda()  # for good: this process compiles one variant
    with without_gpu():
        yield


def _native(caught: Sequence[Caught]) -> dict[str, Any] | None:
    """The defaults of calls in the DSL's native convention; None if the library compiles for TVM-FFI."""
    natives = [call.native for call in caught]
    if all(native is None for native in natives):
        return None
    if any(native is None for native in natives):
        raise Refused("the function compiles some objects with --enable-tvm-ffi and some without: use it for all")
    return {name: value for native in natives for name, value in (native or {}).items()}


def _export(compiled: Any, symbol: str) -> bytes:
    """The object's bytes, exported to a file in memory: a process that is killed leaves no file."""
    with os.fdopen(os.memfd_create("variant.o"), "rb") as file:
        compiled.export_to_c(f"/proc/self/fd/{file.fileno()}", function_name=symbol, export_only_tvm_ffi_symbols=True)
        return file.read()


if __name__ == "__main__":
    main()
