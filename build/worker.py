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
            sys.path[:0] = request.header["search"]
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
        trace = "" if isinstance(error, _Refused) else traceback.format_exc()[-_TRACEBACK_LIMIT:]
        return Message({"error": message, "traceback": trace})
    return Message({**reply, "seconds": time.perf_counter() - started}, parts)


class _Refused(PrecastError):
    """What the function compiled is not what precast ships; the message says it all."""


_catcher: Any = None


def _compile(request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    from precast.build.capture import Catcher, forget_compiled
    from precast.kernels.registry import Source, load
    from precast.kernels.schema import call

    global _catcher
    _catcher = _catcher or Catcher().install()
    source = Source.parse(request["source"])
    function = load(source)
    forget_compiled(source.module)
    _catcher.take()
    call(function, request["config"])
    caught = _catcher.take()
    symbols = request["symbols"]
    if len(caught) != len(symbols):
        raise _Refused(_miscount(source, len(caught), len(symbols)))
    signatures, objects = [], []
    for one, symbol in zip(caught, symbols, strict=True):
        if one.signature is None:
            raise _Refused(f"{source} compiled without TVM-FFI: pass options='--enable-tvm-ffi' to cute.compile")
        signatures.append(_named(function, request["config"], one.signature).to_json())
        objects.append(_export(one.compiled, symbol))
    return {"signatures": signatures}, objects


def _named(function: Any, config: Mapping[str, Any], signature: Any) -> Any:
    """The signature under the names that the function's declaration gives to the arguments, if it gives any."""
    from precast.kernels.declare import declaration_of

    arguments = declaration_of(function, "any").arguments
    return signature.renamed(arguments(config)) if arguments else signature


def _miscount(source: object, caught: int, expected: int) -> str:
    if not caught:
        return f"{source} compiled nothing: it must call cute.compile, once for each object"
    names = ", ".join(f"part{i}" for i in range(caught))
    return (
        f"{source} compiled {caught} objects where {expected} {'is' if expected == 1 else 'are'} expected: "
        f"make it compile exactly one, or name them in the manifest, in their order: 'parts: [{names}]'"
    )


def _export(compiled: Any, symbol: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="precast-") as folder:
        path = os.path.join(folder, "variant.o")
        compiled.export_to_c(path, function_name=symbol, export_only_tvm_ffi_symbols=True)
        with open(path, "rb") as file:
            return file.read()


if __name__ == "__main__":
    main()
