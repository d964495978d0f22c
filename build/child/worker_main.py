"""The worker: a process that starts the DSL for one target and compiles one variant after the other.

Started by ``precast.build.compile.worker``. A request names a function and a config; the answer holds the objects.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from precast.build.child.select_objects import Refused, WrongCount, select_objects
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
    from precast.loader.attach.returned import structure_of

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
    if source.library and len(compiled) > 1:
        raise Refused(
            f"{source} compiled {len(compiled)} objects, and a function of an attached library must compile one: "
            "remove this entry; the library compiles these kernels when it needs them"
        )
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
        "returns": structure_of(returned, caught[0].compiled) if source.library else None,
    }
    return reply, objects


def _export(compiled: Any, symbol: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        path = os.path.join(folder, "variant.o")
        compiled.export_to_c(path, function_name=symbol, export_only_tvm_ffi_symbols=True)
        with open(path, "rb") as file:
            return file.read()


if __name__ == "__main__":
    main()
