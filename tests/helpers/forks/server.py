"""A fork server: a process that has imported what its children need, and forks one for each request.

``tests.helpers.forks.forked_process`` starts it. The import of the DSL takes as long as the rest of a small build. The
server has the variables of its children that may be read while it starts, and each child has its own others. A child
continues where a program begins, and ends as one.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ONCE = "PYTEST_COMPILE_ONCE"  # in the environment of builds that are not about steady kernels: none compiles twice
COMPILER = "compiler"  # in place of a module: the DSL, as a worker imports it
IDLE_SECONDS = 180.0
_ROOT = str(Path(__file__).resolve().parents[3])
_LARGEST = 1 << 20
_TURN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a child does: it calls a function ``module:function`` under these arguments, variables and descriptors."""

    call: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    descriptors: tuple[int, ...]  # the numbers that the descriptors of the message get: 0, 1, 2 and more
    new_session: bool
    before: tuple[str, ...] = ()  # functions that are called first

    def encode(self) -> bytes:
        """The request as it is sent."""
        data = json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()
        assert len(data) < _LARGEST
        return data

    @classmethod
    def parse(cls, data: bytes) -> Request:
        """The request that was sent."""
        lists: dict[str, Any] = json.loads(data)
        values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in lists.items()}
        return cls(**values)


def main() -> Callable[[], Any] | None:
    """Serve until nothing was requested for a while, or ``owner`` has ended; in a child, return its work."""
    number, owner, *modules = sys.argv[1:]
    listener = socket.socket(fileno=int(number))
    os.set_inheritable(listener.fileno(), False)
    sys.path.insert(0, _ROOT)
    for name in modules:
        import_compiler() if name == COMPILER else importlib.import_module(name)
    sys.path.remove(_ROOT)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page that holds an object
    return Server(listener, int(owner)).serve()


def import_compiler() -> None:
    """Import what the child processes of a build import, with the toolkit that a worker has."""
    from precast.build.child import describer_main, rehearser_main, worker_main
    from precast.build.child.stand_in.fake_gpu import toolkit
    from precast.build.link.toolchain import find_toolkit

    assert describer_main and rehearser_main and worker_main
    with toolkit(find_toolkit()):
        import cutlass.base_dsl.compiler
        import cutlass.cute.runtime
        from cutlass.cute import _tvm_ffi_args_spec_converter

    assert cutlass.base_dsl and _tvm_ffi_args_spec_converter


class Server:
    """Accepts a connection for each child. It is closed after the child's status was sent on it."""

    def __init__(self, listener: socket.socket, owner: int) -> None:
        self._listener, self._owner = listener, owner
        self._path = listener.getsockname()
        self._children: dict[int, socket.socket] = {}
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._selector = selectors.DefaultSelector()

    def serve(self) -> Callable[[], Any] | None:
        """Serve requests; in a child, return its work."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        idle = 0.0
        while True:
            events = self._selector.select(_TURN_SECONDS)
            idle = 0.0 if events or self._children else idle + _TURN_SECONDS
            if not _runs(self._owner) or (idle >= IDLE_SECONDS and self._retire()):
                self._end_all()
                return None
            for key, _ in events:
                if key.fileobj is self._listener:
                    if (work := self._accept()) is not None:
                        return work
                elif key.fileobj == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 1 << 12)
                else:
                    self._client_ended(key.data)
            self._reap()

    def _accept(self) -> Callable[[], Any] | None:
        connection, _ = self._listener.accept()
        data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, 16)
        if not data:
            connection.close()
            return None
        request = Request.parse(data)
        pid = os.fork()
        if pid == 0:
            self._leave(connection)
            return lambda: _run(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            connection.send(struct.pack("i", pid))
        self._children[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        return None

    def _leave(self, connection: socket.socket) -> None:
        """In a child: give up all that is the server's."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for one in (self._listener, connection, *self._children.values()):
            one.close()
        os.close(self._wake)
        os.close(self._woken)

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            connection = self._children.pop(pid, None)
            if connection is not None and connection.fileno() >= 0:
                self._selector.unregister(connection)
                with contextlib.suppress(OSError):
                    connection.send(struct.pack("i", os.waitstatus_to_exitcode(status)))
                connection.close()

    def _client_ended(self, pid: int) -> None:
        """The process that waits for this child has ended: so does the child, whose end is reaped as any other."""
        if pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._selector.unregister(self._children[pid])
            self._children[pid].close()

    def _retire(self) -> bool:
        """Take no more requests, unless one has just arrived."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        return not self._selector.select(0)

    def _end_all(self) -> None:
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _run(request: Request, descriptors: list[int]) -> None:
    """Become the process of a request, and do its work."""
    if request.new_session:
        os.setsid()
    _place(descriptors, request.descriptors)
    os.chdir(request.folder)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = [request.call, *request.arguments]
    own = [] if getattr(sys.flags, "safe_path", False) else [request.folder]
    paths = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    added = [path for path in paths if path and path not in before]
    sys.path[:] = [*own, *added, *sys.path[len(own) :]]
    importlib.invalidate_caches()
    for function in (*request.before, request.call):
        module, _, name = function.partition(":")
        getattr(importlib.import_module(module), name)()


def _place(descriptors: list[int], numbers: tuple[int, ...]) -> None:
    """Give the received descriptors their numbers."""
    clear = max(*descriptors, *numbers) + 1
    moved: list[int] = []
    for descriptor in descriptors:  # out of the way of all numbers
        os.dup2(descriptor, clear + len(moved), inheritable=False)
        moved.append(clear + len(moved))
        os.close(descriptor)
    for descriptor, number in zip(moved, numbers, strict=True):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)


def _end_after(work: Callable[[], Any]) -> None:
    """Do the work of a child and end as a program does, but leave its memory to the kernel.

    The interpreter would clear every object of the server's modules, and so copy every page of them.
    """
    status = 0
    try:
        work()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    if (child := main()) is not None:
        _end_after(child)
