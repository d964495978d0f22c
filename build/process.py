"""A worker process as a build sees it: started, asked, ended. What happens to it is an error with its last words."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from precast.build.message import Message
from precast.build.profile import Profile
from precast.loader.errors import FormatError, PrecastError
from precast.loader.target import Target

_KEPT_OUTPUT = 16_000
_CHUNK = 4096


class WorkerLost(PrecastError):
    """A worker ended, hung or talked nonsense. ``output`` holds the end of what it printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


class Worker:
    """One process that compiles for one target under one environment, as if the profile's GPU were there."""

    def __init__(self, target: Target, env: Mapping[str, str], search: Sequence[Path], profile: Profile) -> None:
        replies, theirs = os.pipe()
        command = [sys.executable, "-m", "precast.build.worker", "--reply-fd", str(theirs)]
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
        self._tail: deque[bytes] = deque(maxlen=_KEPT_OUTPUT // _CHUNK)
        assert self._process.stdout is not None
        self._drain = threading.Thread(target=self._read_output, args=(self._process.stdout,), daemon=True)
        self._drain.start()
        configuration = {"search": [str(path) for path in search], "profile": profile.to_json()}
        self.send(Message({"do": "configure", **configuration}))

    def send(self, request: Message) -> None:
        """Hand over a request; the answer is fetched with ``receive``."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # receive() says what happened to it
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()

    def receive(self, seconds: float) -> Message:
        """Wait for an answer, so long at most; a worker that does not give one is ended."""
        try:
            message = Message.read(_Patient(self._replies, time.monotonic() + seconds))  # type: ignore[arg-type]
        except TimeoutError:
            self.kill()
            raise WorkerLost(f"no answer in {seconds:g} s; the worker was ended", self.output) from None
        except FormatError as error:
            self.kill()
            raise WorkerLost(f"the worker's answer cannot be read: {error}", self.output) from None
        if message is None:
            raise WorkerLost(self._epitaph(), self.output)
        return message

    @property
    def pid(self) -> int:
        """The process, while it lives."""
        return self._process.pid

    @property
    def output(self) -> str:
        """The end of what the process has printed."""
        return b"".join(self._tail).decode(errors="replace")[-_KEPT_OUTPUT:]

    def forget_output(self) -> None:
        """Start the record of what it prints anew, for the next variant."""
        self._tail.clear()

    def close(self) -> None:
        """Let the process end by itself; end it if it does not."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.kill()

    def kill(self) -> None:
        """End the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(timeout=5)
        self._replies.close()
        for stream in (self._process.stdin, self._process.stdout):
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
                self._tail.append(chunk)


class _Patient:
    """Reads from a pipe until a deadline."""

    def __init__(self, pipe: BinaryIO, deadline: float) -> None:
        self._pipe, self._deadline = pipe, deadline

    def read(self, size: int) -> bytes:
        ready, _, _ = select.select([self._pipe], [], [], max(0.0, self._deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        return os.read(self._pipe.fileno(), min(size, 1 << 20))


def worker_environment(base: Mapping[str, str], target: Target, env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: the build's own without what could change the bytes, the target, the variant's.

    >>> from precast.loader.target import Target
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
    }
    return {**kept, **env, **fixed}
