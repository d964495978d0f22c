"""The worker: a process that starts the DSL for one target and compiles one variant after the other.

``python -m precast.build.child.worker_main --reply-fd N`` reads requests on its standard input and answers
on a descriptor of its own, so that whatever the kernels' modules print cannot be taken for an answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.build.child.select_objects import Miscounted, Refused, select_objects
from precast.build.ipc.message import Message
from precast.loader.errors import PrecastError

_TRACEBACK_LIMIT = 40_000
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Start the compiler, say so, then answer requests until the build closes the pipe."""
    _leave_with(os.getppid())
    reply_fd = int(sys.argv[sys.argv.index("--reply-fd") + 1])
    os.set_inheritable(reply_fd, False)
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(reply_fd, "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a kernel's module that reads its input must not eat requests
    if not getattr(sys.flags, "safe_path", False):  # Python 3.10 puts the current folder first
        del sys.path[0]
    settings = Message.read(requests)
    if settings is None:
        return
    replies.write(_start(settings.header).encode())
    replies.flush()
    mark = str(settings.header["mark"]).encode()
    while (request := Message.read(requests)) is not None:
        _print_mark(mark)
        answer = _answer(request.header).encode()
        _print_mark(mark)
        replies.write(answer)
        replies.flush()
    os._exit(0)  # threads that a module has started must not hold it up


def _leave_with(parent: int) -> None:
    """Have the kernel end this process when the build is gone, even in the middle of a compilation."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _print_mark(mark: bytes) -> None:
    """Part what one variant prints from what the next does."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    with contextlib.suppress(OSError):
        os.write(1, mark)


def _start(settings: Mapping[str, Any]) -> Message:
    """Start the compiler. From then on memory may grow by so much; what asks for more gets a MemoryError."""
    global _answers, _catcher
    sys.path[:0] = settings["search"]
    try:
        from precast.build.child.capture import Catcher
        from precast.build.child.fact_recorder import FactRecorder
        from precast.build.child.fake_gpu import install_fake_gpu, toolkit

        _answers = FactRecorder(settings["profile"]["name"], settings["profile"]["facts"])
        install_fake_gpu(_answers)
        with toolkit():
            _catcher = Catcher().install()
    except Exception as error:
        return Message({"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()})
    if settings["memory"]:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = _data() + settings["memory"]
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    return Message({"ready": True})


def _data() -> int:
    """The data that this process has mapped, used or not: what the limit counts."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _answer(request: Mapping[str, Any]) -> Message:
    started = time.perf_counter()
    try:
        reply, parts = _compile(request)
    except (Exception, SystemExit) as error:
        message = str(error) if isinstance(error, PrecastError) else f"{type(error).__name__}: {error}"
        trace = "" if isinstance(error, Refused) else traceback.format_exc()[-_TRACEBACK_LIMIT:]
        # A cache of its own, or memory taken before, may be why: then a new process does better.
        again = isinstance(error, (Miscounted, MemoryError))
        return Message({"error": message, "traceback": trace, "again": again})
    return Message({**reply, "seconds": time.perf_counter() - started}, parts)


_catcher: Any = None
_answers: Any = None


def _compile(request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    from precast.build.child.capture import forget_compiled
    from precast.kernels.authoring.declare import argument_names, outputs_of, plan_of
    from precast.kernels.authoring.registry import FunctionRef, load
    from precast.kernels.authoring.schema import call

    source = FunctionRef.parse(request["source"])
    package = source.module.partition(".")[0]
    function = load(source)
    for remembering in {package, *_catcher.packages, *_answers.askers}:
        forget_compiled(remembering)
    _answers.begin(package)
    _catcher.take()
    returned = call(function, request["config"])
    symbols = request["symbols"]
    caught = select_objects(_catcher.take(), returned, source=source, expected=len(symbols))
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
