"""A child process as its parent sees it: started, sent requests, bounded in time and memory, ended.

Every child runs one module of ``precast.build.child`` with the same protocol: requests (``precast.build.ipc.message``)
on its standard input, and one reply to each on a separate pipe. The first request has the settings; the reply reports
that the process is ready, or why it could not start. Printed text is kept separate from replies: its end is in the
error when the child is lost.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, BinaryIO

from precast.build.ipc.capacity import resident
from precast.build.ipc.message import Message, TimedPipe
from precast.build.ipc.output_tail import OutputTail
from precast.build.ipc.process_tree import StopTimer, describe_exit, end_descendants, has_ended, waited_for_processor
from precast.loader.errors import FormatError, PrecastError

START_SECONDS = 300.0  # to import the compiler on a busy machine
_CHUNK = 1 << 16
_OUTPUT_SECONDS = 1.0  # to wait for printed text: it arrives by another pipe than the answer
_END_SECONDS = 5.0
_STOPPED_SECONDS = 8.0  # a worker notices sooner that a process of a variant is stopped, and ends only that


class ChildLost(PrecastError):
    """A child process ended, hung, grew too large or sent an invalid reply. ``output`` is the end of its output;
    ``killed`` means that a signal ended it, which may not happen again."""

    code = "PCB17"

    def __init__(self, message: str, output: str, *, killed: bool = False) -> None:
        super().__init__(message)
        self.output, self.killed = output, killed


class _Stopped(Exception):
    """A child process was stopped, and not continued."""


class ChildProcess:
    """A process that runs ``python -m MODULE``. Use it in a ``with`` block, or call ``close``.

    Errors use ``name``. ``memory`` is the number of bytes that it may take; 0 is no bound. ``environment`` has all its
    variables.
    """

    def __init__(
        self,
        module: str,
        *,
        name: str,
        settings: Mapping[str, Any],
        environment: Mapping[str, str],
        memory: int = 0,
    ) -> None:
        self._name, self._memory = name, memory
        self._gone = self._ready = False
        self._stopped = StopTimer(_STOPPED_SECONDS)
        self._sent, self._replied = -1, 0  # the settings are request 0
        self._process, self._replies = start_process(module, environment)
        mark = f"\0{secrets.token_hex(8)}\0"  # random, so that no module prints it by chance
        self._tail = OutputTail(mark.encode())
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read_output, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        assert self._process.stdin is not None
        # A module may close every descriptor while it is imported. So this process keeps an end of the pipe of replies
        # until the child ends, and the child can open both pipes again.
        self._end = os.open(f"/proc/self/fd/{self._replies.fileno()}", os.O_WRONLY | os.O_CLOEXEC)
        pipes = [f"/proc/{os.getpid()}/fd/{pipe.fileno()}" for pipe in (self._process.stdin, self._replies)]
        self.send(Message({**settings, "mark": mark, "memory": memory, "pipes": pipes}))

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.kill()

    def ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until the process has started. The first ``receive`` waits, too, if the caller did not."""
        self._ready = True
        reply = self._read(seconds)
        if "error" in reply.header:
            self.kill()
            raise ChildLost(str(reply.header["error"]), str(reply.header.get("traceback", "")) or self._tail.last())

    def send(self, request: Message) -> None:
        """Send a request; get its reply with ``receive``. Several requests may be sent before the first reply."""
        if self._gone:
            return
        assert self._process.stdin is not None
        self._sent += 1
        numbered = Message({**request.header, "request": self._sent}, request.parts)
        with contextlib.suppress(BrokenPipeError):  # receive() reports what happened to the process
            self._process.stdin.write(numbered.encode())
            self._process.stdin.flush()

    def receive(self, seconds: float) -> Message:
        """The next reply, or ChildLost. A process that does not reply in time is ended."""
        if not self._ready:
            self.ready()
        message = self._read(seconds)
        self._replied += 1
        if message.header.get("request") != self._replied:
            self.kill()
            raise ChildLost(f"the {self._name} replied out of order", self._tail.last())
        return message

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def output(self) -> str:
        """The end of what the process printed during the last request that it replied to."""
        return self._tail.text(self._replied - 1, wait=_OUTPUT_SECONDS)

    def close(self) -> None:
        """Let the process end; kill it if it does not."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_SECONDS)
        self.kill()

    def interrupt(self) -> None:
        """Kill the process from another thread. The thread that waits for its reply gets ChildLost and cleans up."""
        if self._process.returncode is None:
            _kill_session(self._process.pid)

    def kill(self) -> None:
        """End the process and all its descendants, and close its pipes."""
        if self._gone:
            return
        self._gone = True
        _kill_session(self._process.pid)
        self._process.wait()
        self._reader.join(timeout=_END_SECONDS)
        self._close_end()
        for stream in (self._process.stdin, self._process.stdout, self._replies):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read(self, seconds: float) -> Message:
        if self._gone:
            raise ChildLost(f"the {self._name} has ended", self._tail.last())
        pipe = TimedPipe(self._replies, seconds, self._check, lambda: waited_for_processor(self.pid))
        killed = False
        try:
            message = Message.read(pipe)
        except TimeoutError:
            reason = f"no answer in {seconds:g} s; the {self._name} was ended"
        except (MemoryError, _Stopped) as error:
            reason = f"{error}; the {self._name} was ended"
        except FormatError as error:
            reason = f"the answer of the {self._name} cannot be read: {error}"
        else:
            if message is not None:
                return message
            code = self._exit_code()
            killed = code < 0
            reason = f"the {self._name} {describe_exit(code)}"
        self.kill()
        raise ChildLost(reason, self._tail.last(), killed=killed) from None

    def _exit_code(self) -> int:
        """The exit code of a process that has closed its pipe; a process that is still running is ended."""
        try:
            code = self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_session(self._process.pid)
            code = self._process.wait()
        self._reader.join(timeout=_END_SECONDS)
        return code

    def _close_end(self) -> None:
        end, self._end = self._end, -1
        if end >= 0:
            os.close(end)

    def _check(self) -> None:
        if has_ended(self.pid):
            self._close_end()
        if self._stopped.expired(self.pid):
            raise _Stopped(f"it, or a process of it, was stopped by a signal for {_STOPPED_SECONDS:g} s")
        if self._memory and (size := resident(self.pid)) > self._memory:
            raise MemoryError(f"it used {size >> 20} MiB of memory, more than its {self._memory >> 20} MiB")

    def _read_output(self, stream: BinaryIO) -> None:
        with contextlib.suppress(ValueError, OSError):
            while chunk := os.read(stream.fileno(), _CHUNK):
                self._tail.feed(chunk)


def start_process(module: str, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """The process, in a separate session, so that its descendants can be ended with it; and the pipe of its replies."""
    replies, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--reply-fd", str(theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            env=environment,
            start_new_session=True,
        )
    except BaseException:
        os.close(replies)
        raise
    finally:
        os.close(theirs)
    return process, os.fdopen(replies, "rb", buffering=0)


def _kill_session(pid: int) -> None:
    """Kill a process and all its descendants, including those that have left its session."""
    end_descendants(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
