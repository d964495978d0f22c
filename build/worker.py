"""The worker: a process that starts the DSL for one target and compiles one variant after the other.

``python -m precast.build.worker --reply-fd N`` reads requests on its standard input and answers on a descriptor of
its own, so that whatever the kernels' modules print cannot be taken for an answer.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any

from precast.build.message import Message
from precast.build.parts import Refused, parts_of
from precast.loader.errors import PrecastError

_ORPHAN_CHECK_SECONDS = 1.0
_TRACEBACK_LIMIT = 40_000


def main() -> None:
    """Answer requests until the build closes the pipe."""
    reply_fd = int(sys.argv[sys.argv.index("--reply-fd") + 1])
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(reply_fd, "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a kernel's module that reads its input must not eat requests
    _leave_with(os.getppid())
    while (request := Message.read(requests)) is not None:
        if request.header.get("do") == "configure":
            _configure(request.header)
            continue
        replies.write(_answer(request.header).encode())
        replies.flush()


def _leave_with(parent: int) -> None:
    """End this process when the build that started it is gone, even in the middle of a compilation."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_ORPHAN_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _answer(request: Mapping[str, Any]) -> Message:
    started = time.perf_counter()
    try:
        reply, parts = _compile(request)
    except Exception as error:
        message = str(error) if isinstance(error, PrecastError) else f"{type(error).__name__}: {error}"
        trace = "" if isinstance(error, Refused) else traceback.format_exc()[-_TRACEBACK_LIMIT:]
        return Message({"error": message, "traceback": trace})
    return Message({**reply, "seconds": time.perf_counter() - started}, parts)


_catcher: Any = None
_answers: Any = None


def _configure(header: Mapping[str, Any]) -> None:
    from precast.build.answers import Answers
    from precast.build.standin import stand_in

    global _answers
    sys.path[:0] = header["search"]
    _answers = Answers(header["profile"]["name"], header["profile"]["facts"])
    stand_in(_answers)


def _compile(request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    from precast.build.capture import Catcher, forget_compiled
    from precast.build.standin import toolkit
    from precast.kernels.declare import argument_names, outputs_of, plan_of
    from precast.kernels.registry import Source, load
    from precast.kernels.schema import call

    global _catcher
    if _catcher is None:
        with toolkit():
            _catcher = Catcher().install()
    source = Source.parse(request["source"])
    package = source.module.partition(".")[0]
    function = load(source)
    for remembering in {package, *_catcher.packages, *_answers.askers}:
        forget_compiled(remembering)
    _answers.begin(package)
    _catcher.take()
    returned = call(function, request["config"])
    symbols = request["symbols"]
    caught = parts_of(_catcher.take(), returned, source=source, expected=len(symbols))
    names = argument_names(function, request["config"])
    signatures, objects = [], []
    for one, symbol in zip(caught, symbols, strict=True):
        if one.signature is None:
            raise Refused(f"{source} compiled without TVM-FFI: pass options='--enable-tvm-ffi' to cute.compile")
        signatures.append(one.signature.renamed(names).writing(outputs_of(function)).to_json())
        objects.append(_export(one.compiled, symbol))
    plan = plan_of(function, request["config"])
    said = {"signatures": signatures, "plan": plan.to_json() if plan else None, "assumed": _answers.asked()}
    return said, objects


def _export(compiled: Any, symbol: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        path = os.path.join(folder, "variant.o")
        compiled.export_to_c(path, function_name=symbol, export_only_tvm_ffi_symbols=True)
        with open(path, "rb") as file:
            return file.read()


if __name__ == "__main__":
    main()
