"""The worker: a process that starts the DSL for one target and compiles one variant after the other.

Started by ``precast.build.compile.worker``. A request names a function and a config; the answer holds the objects.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from precast.build.child.capture import Caught
from precast.build.child.select_objects import Refused, WrongCount, select_objects, select_returned
from precast.build.child.serve import Answer, failure, serve
from precast.build.ipc.message import Message


def main() -> None:
    """Compile what the build asks for."""
    serve(start)


def start(settings: Mapping[str, Any]) -> Answer:
    """Start the compiler with a GPU's profile, and give the function that compiles."""
    from precast.build.child.capture import Catcher
    from precast.build.child.fact_recorder import FactRecorder
    from precast.build.child.fake_gpu import install_fake_gpu, toolkit

    facts = FactRecorder(settings["profile"]["name"], settings["profile"]["facts"])
    install_fake_gpu(facts)
    with toolkit():
        catcher = Catcher().install()

    def answer(request: Mapping[str, Any]) -> Message:
        started = time.perf_counter()
        try:
            reply, parts = _compile(request, catcher, facts)
        except Refused as error:  # the message needs no traceback
            return Message({"error": str(error), "traceback": "", "again": isinstance(error, WrongCount)})
        except (Exception, SystemExit) as error:
            # Memory that earlier variants took may be the cause: a new process may succeed.
            return failure(error, again=isinstance(error, MemoryError))
        return Message({**reply, "seconds": time.perf_counter() - started}, parts)

    return answer


def _compile(request: Mapping[str, Any], catcher: Any, facts: Any) -> tuple[dict[str, Any], list[bytes]]:
    from precast.build.child.capture import forget_compiled
    from precast.kernels.authoring.declare import argument_names, outputs_of, plan_of
    from precast.kernels.authoring.registry import FunctionRef, load
    from precast.kernels.authoring.schema import call
    from precast.loader.attach.returned import numbered

    source = FunctionRef.parse(request["source"])
    package = source.module.partition(".")[0]
    function = load(source)
    for caching in {package, *catcher.packages, *facts.askers}:
        forget_compiled(caching)
    facts.begin(package)
    catcher.take()
    returned = call(function, request["config"])
    symbols = request["symbols"]
    compiled = catcher.take()
    form = None
    if source.library:
        caught, form = select_returned(compiled, returned, source=source)
        symbols = [numbered(symbols[0], number, "_") for number in range(len(caught))]
    else:
        caught = select_objects(compiled, returned, source=source, expected=len(symbols))
    names = argument_names(function, request["config"])
    signatures, objects = [], []
    for part, (one, symbol) in enumerate(zip(caught, symbols, strict=True)):
        if one.signature is None:
            raise Refused(f"{source} compiled without TVM-FFI: pass options='--enable-tvm-ffi' to cute.compile")
        signatures.append(one.signature.renamed(names).writing(outputs_of(function, part)).to_json())
        objects.append(_export(one.compiled, symbol))
    launch_plan = plan_of(function, request["config"])
    reply = {
        "signatures": signatures,
        "launch_plan": launch_plan.to_json() if launch_plan else None,
        "assumed": facts.asked(),
        "native": _native(caught) if source.library else None,
        "returns": form,
    }
    return reply, objects


def _native(caught: Sequence[Caught]) -> dict[str, Any] | None:
    """The defaults of calls in the DSL's native convention; None where the library compiles for TVM-FFI."""
    natives = [one.native for one in caught]
    if all(native is None for native in natives):
        return None
    if any(native is None for native in natives):
        raise Refused("the function compiles some of its objects with --enable-tvm-ffi and some without: use one way")
    return {name: value for native in natives for name, value in (native or {}).items()}


def _export(compiled: Any, symbol: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        path = os.path.join(folder, "variant.o")
        compiled.export_to_c(path, function_name=symbol, export_only_tvm_ffi_symbols=True)
        with open(path, "rb") as file:
            return file.read()


if __name__ == "__main__":
    main()
