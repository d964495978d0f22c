"""A process for each variant, forked from one that has imported the module of its kernel.

A worker that has started the compiler forks a process for each module of kernels, which imports the module and forks a
process for each variant. So a variant is affected by the import of its own module, and not by other modules or
variants: its result does not depend on the order of compilation. What processes import for several of them is what each
would import first (``precast.build.child.leading_imports``).
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn, Protocol

from precast.build.child.closed.refusals import explained
from precast.build.child.serve import failure, flush_output, missing_module
from precast.build.ipc.capacity import held_by
from precast.build.ipc.message import Message, TimedPipe, ready
from precast.build.ipc.process_tree import (
    StopTimer,
    adopt_orphans,
    descendants,
    describe_exit,
    end_descendants,
    end_with_parent,
    reap,
)
from precast.loader.errors import FormatError, PrecastError

_STOPPED_SECONDS = 5.0
_ENDED = "the process of its module was ended"
USED = "used"
"""In a reply: a variant left files, which could reach the next one, so that this needs another process."""


class Work(Protocol):
    """The work of a module's process; ``compile`` runs in a separate process."""

    def load(self, request: Mapping[str, Any]) -> None:
        """Close the process, and import the module of a request and what its function imports first."""

    def hold_sources(self, files: Sequence[str]) -> None:
        """Compile the ``sources`` of earlier replies, once for all processes that are forked next."""

    def compile(self, request: Mapping[str, Any]) -> Message:
        """Compile a variant."""

    def written(self) -> frozenset[tuple[str, int]]:
        """The files that processes of this module can write and read."""


class ProcessLost(PrecastError):
    """The process of a module or a variant hung or grew too large, and was ended."""

    code = "PCB20"


class ModuleProcess:
    """A forked process that imports the module of the first request, then forks a process for each request."""

    def __init__(self, work: Work) -> None:
        requests, self._requests = os.pipe()
        replies, answers = os.pipe()
        self.pid = _fork()
        if self.pid == 0:
            os.close(self._requests)
            os.close(replies)
            _run_and_exit(lambda: _serve(os.fdopen(requests, "rb"), answers, work))
        os.close(requests)
        os.close(answers)
        self._replies = os.fdopen(replies, "rb", buffering=0)

    def request(self, request: Mapping[str, Any], *, seconds: float, memory: int, build: int) -> Message:
        """The reply to a request; raises ProcessLost. A process may take ``memory`` bytes; 0 means no limit.

        ``build`` is the parent of this process. If it has ended, this process ends as well.
        """

        stopped = StopTimer(_STOPPED_SECONDS)

        def check() -> None:
            if os.getppid() != build:
                self.end()
                os._exit(1)
            if stopped.expired(self.pid):
                raise ProcessLost(f"it was stopped by a signal for {_STOPPED_SECONDS:g} s; the worker was ended")
            if memory and (size := held_by([self.pid, *descendants(self.pid)], memory)) > memory:
                raise MemoryError(f"it used {size >> 20} MiB of memory, more than its {memory >> 20} MiB")

        try:
            _write(self._requests, Message(request))
            reply = Message.read(TimedPipe(self._replies, seconds, check))
        except TimeoutError:
            reason = f"no answer in {seconds:g} s; the worker was ended: allow more time with --timeout"
        except MemoryError as error:
            reason = f"{error}; the worker was ended: allow more with --memory"
        except ProcessLost as error:
            reason = str(error)
        except BrokenPipeError:
            reason = _ENDED
        except (FormatError, OSError) as error:
            reason = f"the answer of the worker cannot be read: {error}"
        else:
            if reply is not None:
                return reply
            reason = _ENDED
        self.end()
        raise ProcessLost(reason)

    def end(self) -> None:
        """End the process and all its descendants."""
        end_descendants(self.pid)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self._requests)
        self._replies.close()


def _serve(requests: BinaryIO, replies: int, work: Work) -> None:
    """Serve requests in the module's own process, until its parent closes the pipe."""
    adopt_orphans()
    loaded = False
    served: set[object] = set()
    sources: Sequence[str] = ()  # of the last variant
    before: frozenset[tuple[str, int]] = frozenset()
    while (request := Message.read(requests)) is not None:
        if not loaded:
            try:
                work.load(request.header)
            except (Exception, SystemExit) as error:
                _write(replies, failure(explained(error), imported=False, **missing_module(error)))
                break
            before = work.written()
        elif work.written() != before:
            _write(replies, Message({USED: True}))
            break
        loaded = True
        work.hold_sources(sources)
        first = request.header.get("source") not in served  # of its function, in this process
        served.add(request.header.get("source"))
        reply = _answer_in_process({**request.header, "first": first}, work)
        header = dict(reply.header)
        sources = _texts(header.pop("sources", None))
        _write(replies, Message(header, reply.parts))
        end_descendants(os.getpid())
        reap()


def _answer_in_process(request: Mapping[str, Any], work: Work) -> Message:
    """The reply to one request from a separate process; how that process ended if it does not reply."""
    answer, theirs = os.pipe()
    pid = _fork()
    if pid == 0:
        os.close(answer)
        _run_and_exit(lambda: _write(theirs, _answer(request, work)))
    os.close(theirs)
    with os.fdopen(answer, "rb") as pipe:
        if _ends_first(pid, pipe.fileno()):
            end_descendants(os.getpid())  # one of them may hold the other end of the pipe
        with suppress(FormatError):
            if (reply := Message.read(pipe)) is not None:
                return reply  # at once: that the process ends takes a while
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Message({"error": f"the worker {describe_exit(status)}", "traceback": ""})


def _answer(request: Mapping[str, Any], work: Work) -> Message:
    """The reply to one request, in its own process."""
    own = os.getpid()
    reply = work.compile(request)
    if os.getpid() != own:  # a copy of the process that the kernel's function has made
        os._exit(0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    flush_output()
    return Message({**reply.header, "memory": peak}, reply.parts)


def _texts(value: object) -> list[str]:
    """The texts of a list that a process of unknown state has made."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _ends_first(pid: int, pipe: int) -> bool:
    """Wait for a reply or the end of a process, and return whether it ended without a reply."""
    try:
        ended = os.pidfd_open(pid)
    except OSError:  # an older kernel: the limit of seconds ends a wait for a pipe that another process holds open
        return False
    try:
        return pipe not in ready(pipe, ended)
    finally:
        os.close(ended)


def _run_and_exit(work: Callable[[], None]) -> NoReturn:
    """Do the work of a forked process, which must not continue as a second copy of its parent."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush_output()
        os._exit(status)


def _fork() -> int:
    """Fork. The child ends with this process."""
    flush_output()
    gc.freeze()  # a collection in the child would write to, and so copy, every page that holds an object
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        end_with_parent(parent)
    return pid


def _write(pipe: int, message: Message) -> None:
    data = memoryview(message.encode())
    while data:
        data = data[os.write(pipe, data) :]
