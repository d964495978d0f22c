"""The child's side of the protocol of ``precast.build.ipc.child_process``: reads settings, starts, serves requests.

Kernels' modules run in this process. They may print, read standard input, start threads and call ``sys.exit``: none of
that may affect the pipes of the protocol, or outlive the parent.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

from precast.build.child.author_traceback import author_frames, author_traceback, first_line, without_colours
from precast.build.ipc.message import Message
from precast.build.ipc.process_tree import end_descendants, end_with_parent, reap
from precast.kernels.authoring.errors import described
from precast.kernels.authoring.extras import extra_hint
from precast.loader.errors import PrecastError

Answer = Callable[[Mapping[str, Any]], Message]
Start = Callable[[Mapping[str, Any]], Answer]


def serve(start: Start, *, cleans_up: bool = False) -> None:
    """Serve requests until the parent closes the pipe. ``start`` takes the settings and returns the request handler.

    A process that ``cleans_up`` detects the end of its parent itself during a request: it must end its own children.
    """
    parent, own = os.getppid(), os.getpid()
    end_with_parent(parent)
    requests, replies = _take_pipes()
    if not getattr(sys.flags, "safe_path", False):  # Python 3.10 puts the current folder first
        del sys.path[0]
    if (settings := Message.read(requests)) is None:
        return
    answer = _started(start, settings.header, replies)
    pipes = _Pipes(requests, replies, settings.header["pipes"])
    if cleans_up:
        end_with_parent(parent, at_once=False)
    mark = str(settings.header["mark"]).encode()
    while (request := Message.read(requests)) is not None:
        _print_mark(mark)
        try:
            reply = answer(request.header)
        except (Exception, SystemExit) as error:
            reply = failure(error)
        if os.getpid() != own:  # a copy of the process that an author's code has made
            os._exit(0)
        requests, replies = pipes.restored()
        _print_mark(mark)
        _send(replies, Message({**reply.header, "request": request.header.get("request")}, reply.parts))
    if cleans_up:
        end_descendants(own)
        reap()
    flush_output()
    os._exit(0)  # threads that a module has started must not delay the end


def failure(error: BaseException, **more: Any) -> Message:
    """The reply to a request that raised an error: the message, and where in the author's code it was raised."""
    message = str(error) if isinstance(error, PrecastError) else _message(error)
    code = error.code if isinstance(error, PrecastError) else ""
    fields = {"error": message + extra_hint(error), "code": code, "traceback": without_colours(author_traceback(error))}
    return Message({**fields, **more})


def missing_module(error: BaseException) -> dict[str, str]:
    """The name of a module that was not found, for the parent, which can see whether it is only not declared."""
    return {"missing": error.name} if isinstance(error, ModuleNotFoundError) and error.name else {}


def _message(error: BaseException) -> str:
    """The first line of an error. One without a text has its place in the author's code, if it is of that."""
    if str(error).strip():
        return first_line(error)
    frames = author_frames(error)
    if not frames:
        return described(error)
    last = frames[-1]
    return f"{type(error).__name__} in {last.name}, {Path(last.filename).name}:{last.lineno}: {last.line}"


def refusal(error: PrecastError) -> Message:
    """The reply to a request that precast itself refused: the message needs no traceback."""
    return Message({"error": str(error), "code": error.code, "traceback": ""})


def _started(start: Start, settings: Mapping[str, Any], replies: BinaryIO) -> Answer:
    """Start, and report it. From then on the process may allocate only so much more memory before a MemoryError."""
    try:
        sys.path[:0] = settings.get("search", [])
        answer = start(settings)
    except Exception as error:
        _send(replies, failure(error))
        os._exit(1)
    _send(replies, Message({"ready": True}))
    if settings["memory"]:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = _mapped_data() + settings["memory"]
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    return answer


def _send(replies: BinaryIO, reply: Message) -> None:
    replies.write(reply.encode())
    replies.flush()


class _Pipes:
    """The pipes of the protocol. A module may close every descriptor while it is imported: then they are opened again,
    by the paths of the parent's ends. A closed process may not open these: a copy of it keeps the pipes instead."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO, paths: Sequence[str]) -> None:
        self._pipes, self._paths = [requests, replies], paths
        self._are = [_identity(pipe) for pipe in self._pipes]
        try:
            os.close(os.open(paths[1], os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            keeper = _keeper()
            self._paths = [f"/proc/{keeper}/fd/{pipe.fileno()}" for pipe in self._pipes]

    def restored(self) -> tuple[BinaryIO, BinaryIO]:
        """The pipe of requests and that of replies."""
        for which, (mode, flags) in enumerate((("rb", os.O_RDONLY), ("wb", os.O_WRONLY))):
            if _identity(self._pipes[which]) != self._are[which]:
                self._lost.append(self._pipes[which])
                file = os.open(self._paths[which], flags | os.O_CLOEXEC)
                self._pipes[which] = cast("BinaryIO", os.fdopen(file, mode))
        return self._pipes[0], self._pipes[1]

    _lost: ClassVar[list[BinaryIO]] = []  # kept: at their end, their numbers would be closed, which are others' by now


def _keeper() -> int:
    """The number of a copy of this process that waits, and ends with it."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        end_with_parent(parent)
        while True:
            signal.pause()
    return pid


def _identity(pipe: BinaryIO) -> tuple[int, int] | None:
    try:
        facts = os.fstat(pipe.fileno())
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of requests and of replies, as descriptors that modules do not use; standard input becomes empty."""
    reply_fd = int(sys.argv[sys.argv.index("--reply-fd") + 1])
    os.set_inheritable(reply_fd, False)
    sys.argv[:] = sys.orig_argv[:] = ["precast"]  # the descriptor is another one each time, and the path of any machine
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return requests, os.fdopen(reply_fd, "wb")


def flush_output() -> None:
    """Flush printed output."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _print_mark(mark: bytes) -> None:
    """Separate the output of one request from that of the next."""
    flush_output()
    with contextlib.suppress(OSError):
        os.write(1, mark)


def _mapped_data() -> int:
    """The size of the mapped data of this process, used or not, which RLIMIT_DATA limits."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
