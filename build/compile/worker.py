"""A worker process as a build sees it: started, asked, ended. What happens to it is an error with its last words."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from precast.build.gpu.profile import Profile
from precast.build.ipc.capacity import resident
from precast.build.ipc.message import Message
from precast.build.ipc.output_tail import OutputTail
from precast.loader.errors import FormatError, PrecastError
from precast.loader.format.target import Target

START_SECONDS = 300.0  # for the compiler to be imported, on a busy machine
_CHUNK = 1 << 16
_TAIL_SECONDS = 1.0  # for what was printed to arrive: it comes by another way than the answer
_WATCH_SECONDS = 0.1  # between two looks at how much memory a worker holds


class WorkerLost(PrecastError):
    """A worker ended, hung or talked nonsense. ``output`` holds the end of what it printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


class Worker:
    """One process that compiles for one target under one environment, as if the profile's GPU were there.

    ``memory`` is what it may take in bytes; 0 is no bound.
    """

    def __init__(
        self, target: Target, env: Mapping[str, str], search: Sequence[Path], profile: Profile, *, memory: int = 0
    ) -> None:
        replies, theirs = os.pipe()
        command = [sys.executable, "-m", "precast.build.child.worker_main", "--reply-fd", str(theirs)]
        self._memory = memory
        self._gone = False
        self._ready = False
        self._answered = 0
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs,),
                env=worker_environment(os.environ, target, env),
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        self._replies = os.fdopen(replies, "rb", buffering=0)
        mark = f"\0{secrets.token_hex(8)}\0"  # no module can print it by chance
        self._tail = OutputTail(mark.encode())
        assert self._process.stdout is not None
        self._drain = threading.Thread(target=self._read_output, args=(self._process.stdout,), daemon=True)
        self._drain.start()
        configuration = {"search": [str(path) for path in search], "profile": profile.to_json()}
        self.send(Message({**configuration, "mark": mark, "memory": memory}))

    def ready(self, seconds: float) -> None:
        """Wait until the compiler is there, so long at most. Whoever does not is made to by the first ``receive``."""
        self._ready = True
        reply = self._receive(seconds)
        if "error" in reply.header:
            self.kill()
            raise WorkerLost(str(reply.header["error"]), str(reply.header.get("traceback", "")) or self._tail.last())

    def send(self, request: Message) -> None:
        """Hand over a request; the answer is fetched with ``receive``."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # receive() says what happened to it
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()

    def receive(self, seconds: float) -> Message:
        """Wait for an answer, so long at most; a worker that does not give one is ended."""
        if not self._ready:
            self.ready(START_SECONDS)
        message = self._receive(seconds)
        self._answered += 1
        return message

    def _receive(self, seconds: float) -> Message:
        pipe = _Patient(self._replies, time.monotonic() + seconds, self._check_memory)
        try:
            message = Message.read(pipe)  # type: ignore[arg-type]
        except TimeoutError:
            raise self._lost(f"no answer in {seconds:g} s; the worker was ended") from None
        except MemoryError as error:
            raise self._lost(f"{error}; the worker was ended") from None
        except FormatError as error:
            raise self._lost(f"the worker's answer cannot be read: {error}") from None
        if message is None:
            epitaph = self._epitaph()
            raise self._lost(epitaph)
        return message

    def _check_memory(self) -> None:
        if self._memory and (size := resident(self.pid)) > self._memory:
            raise MemoryError(f"it took {size >> 20} MiB of memory, and may take {self._memory >> 20} MiB")

    def _lost(self, reason: str) -> WorkerLost:
        self.kill()
        return WorkerLost(reason, self._tail.last())

    @property
    def pid(self) -> int:
        """The process, while it lives."""
        return self._process.pid

    @property
    def output(self) -> str:
        """The end of what the process printed at the request that it answered last."""
        return self._tail.text(self._answered - 1, wait=_TAIL_SECONDS)

    def close(self) -> None:
        """Let the process end by itself; end it if it does not."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.kill()

    def interrupt(self) -> None:
        """End the process from another thread: whoever waits for its answer is told that it is lost, and cleans up."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the process and all that it has started, and let go of its pipes."""
        if self._gone:
            return
        self._gone = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(timeout=5)
        for stream in (self._process.stdin, self._process.stdout, self._replies):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _epitaph(self) -> str:
        code = self._process.wait()
        self._drain.join(timeout=5)
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            more = "; it may have run out of memory" if name == "SIGKILL" else ""
            return f"the worker was ended by {name}{more}"
        return f"the worker ended with exit status {code}"

    def _read_output(self, stream: BinaryIO) -> None:
        with contextlib.suppress(ValueError, OSError):
            while chunk := os.read(stream.fileno(), _CHUNK):
                self._tail.feed(chunk)


class _Patient:
    """Reads from a pipe until a deadline, and looks up now and then."""

    def __init__(self, pipe: BinaryIO, deadline: float, look: Callable[[], None]) -> None:
        self._pipe, self._deadline, self._look = pipe, deadline, look

    def read(self, size: int) -> bytes:
        while True:
            left = self._deadline - time.monotonic()
            ready, _, _ = select.select([self._pipe], [], [], max(0.0, min(left, _WATCH_SECONDS)))
            if ready:
                return os.read(self._pipe.fileno(), min(size, 1 << 20))
            if left <= 0:
                raise TimeoutError
            self._look()


def worker_environment(base: Mapping[str, str], target: Target, env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: the build's own without what could change the bytes, the target, the variant's.

    >>> from precast.loader.format.target import Target
    >>> worker_environment({"CUTE_DSL_LINEINFO": "1"}, Target.parse("sm_90a"), {})["CUTE_DSL_ARCH"]
    'sm_90a'
    """
    kept = {name: value for name, value in base.items() if not name.startswith("CUTE_DSL_")}
    fixed = {
        "CUTE_DSL_ARCH": str(target),
        "CUTE_DSL_ENABLE_TVM_FFI": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",  # the current folder is no place to import from
    }
    return {**kept, **env, **fixed}
