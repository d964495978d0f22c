"""The remote cache: records that many machines share, in any storage that fsspec supports.

It only saves work. Its files are checked like those of the local store, and if it fails, the build continues without it
and warns once.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.disk.scratch import write_atomically
from precast.build.store.remote import LIMIT
from precast.loader.errors import ConfigError, FormatError
from precast.publish.errors import RemoteError

_PARALLEL = 16
_WAITING = 64  # files that wait to be sent, so that a slow network does not fill the memory
_S3 = {"config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 3}}}


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait: for one file, and at the end of the build for files that are still being sent."""

    file: float = 60.0
    end: float = 120.0


class Remote:
    """Files by name below a URL. After an error it is disabled, and ``warn`` is called once with the reason."""

    def __init__(
        self,
        url: str,
        warn: Callable[[str], None],
        *,
        read_only: bool = False,
        patience: Patience = Patience(),
    ) -> None:
        self._files, self._root = _open(url)
        self._warn, self.read_only, self._patience = warn, read_only, patience
        self._down = threading.Event()
        self._lock = threading.Lock()
        self._threads = _Threads(_PARALLEL)
        self._room = threading.Semaphore(_WAITING)
        self._sent: list[Future[Any]] = []

    def __str__(self) -> str:
        return str(self._files.unstrip_protocol(self._root))

    def fetch(self, name: str) -> bytes | None:
        """A file, or None if it is absent or the remote is disabled. A file that is too large is a FormatError."""
        if self._down.is_set():
            return None
        future = self._threads.submit(lambda: self._read(f"{self._root}/{name}"))
        try:
            data: bytes = future.result(self._patience.file)
        except FileNotFoundError:
            return None
        except FormatError:
            raise
        except TooLate:
            self._disable(f"no answer in {self._patience.file:g} s")
            return None
        except Exception as error:  # any exception that a file system's library raises
            self._disable(_first_line(error))
            return None
        if len(data) > LIMIT:
            raise FormatError(f"it has more than {LIMIT} bytes")
        return data

    def names(self) -> frozenset[str] | None:
        """The names of all files, or None if the remote is disabled."""
        if self._down.is_set():
            return None
        try:
            paths = self._threads.submit(lambda: self._files.find(self._root)).result(self._patience.file)
            return frozenset("/".join(str(path).split("/")[-2:]) for path in paths)
        except FileNotFoundError:
            return frozenset()
        except TooLate:
            self._disable(f"its files could not be listed in {self._patience.file:g} s")
        except Exception as error:
            self._disable(_first_line(error))
        return None

    def send(self, name: str, data: bytes) -> None:
        """Send a file, without waiting for it to arrive."""
        if self.read_only or self._down.is_set() or len(data) > LIMIT:
            return
        if not self._room.acquire(timeout=self._patience.file):
            self._disable(f"no file was sent in {self._patience.file:g} s")
            return
        self._sent = [f for f in self._sent if not f.done()]
        self._sent.append(self._threads.submit(lambda: self._write(f"{self._root}/{name}", data)))

    def finish(self) -> None:
        """Wait for the files that are being sent."""
        deadline = time.monotonic() + self._patience.end
        for future in self._sent:
            if self._down.is_set():
                return
            try:
                future.result(max(0.0, deadline - time.monotonic()))
            except TooLate:
                self._disable(f"some files were not sent {self._patience.end:g} s after the build")

    def _read(self, path: str) -> bytes:
        try:
            return bytes(self._files.cat_file(path, start=0, end=LIMIT + 1))
        except FileNotFoundError:
            raise
        except Exception:
            if self._files.size(path) == 0:  # some servers give no range of an empty file
                raise FormatError("it is empty") from None
            raise

    def _write(self, path: str, data: bytes) -> None:
        try:
            if not self._down.is_set():
                if "file" in _protocols(self._files):  # all others replace a file as a whole
                    write_atomically(Path(path), data)
                else:
                    self._files.pipe_file(path, data)
        except Exception as error:
            self._disable(_first_line(error))
        finally:
            self._room.release()

    def _disable(self, reason: str) -> None:
        with self._lock:
            first = not self._down.is_set()
            self._down.set()
        if first:
            self._warn(f"the remote cache {self} is disabled for this build: {reason}")


_Jobs = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]


class _Threads:
    """Threads that the process does not wait for at exit: one may hang on a server that never responds.

    They end with the store that they serve.
    """

    def __init__(self, count: int) -> None:
        self._jobs: _Jobs = queue.SimpleQueue()
        for _ in range(count):
            threading.Thread(target=_serve, args=(self._jobs,), daemon=True).start()
        weakref.finalize(self, _end, self._jobs, count).atexit = False

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future


def _serve(jobs: _Jobs) -> None:
    while (entry := jobs.get()) is not None:
        job, future = entry
        try:
            future.set_result(job())
        except BaseException as error:
            future.set_exception(error)
        del entry, job, future  # a job keeps the store alive


def _end(jobs: _Jobs, count: int) -> None:
    for _ in range(count):
        jobs.put(None)


def _open(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise RemoteError("fsspec is not installed: pip install 'precast[remote]'") from None
    scheme, separator, rest = url.partition("://")
    if not separator or not rest.strip("/"):
        raise ConfigError(
            f"{url!r} is not the URL of a folder: write it like s3://bucket/folder or file:///shared/precast"
        )
    options = _S3 if scheme in ("s3", "s3a") else {}
    try:
        files, root = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True, **options)
    except ImportError as error:
        raise RemoteError(f"{scheme}:// needs another package: {error}") from None
    except Exception as error:
        raise RemoteError(f"{url!r} cannot be used: {_first_line(error)}; check its form and its options") from None
    if (loop := getattr(files, "loop", None)) is not None:
        # A connection that breaks would print a traceback of the library's thread, beside the warning of the build.
        loop.set_exception_handler(lambda loop, context: None)
    return files, str(root).rstrip("/")


def is_supported(url: str) -> bool:
    """Whether fsspec has the scheme of a URL. Opening it finds what else may be wrong.

    >>> is_supported("s3://bucket/folder"), is_supported("bucket://folder")
    (True, False)
    """
    scheme, separator, _ = url.partition("://")
    try:
        from fsspec import available_protocols
    except ImportError:  # opening the URL reports that
        return True
    return not separator or "::" in scheme or scheme in available_protocols()


def _protocols(files: Any) -> tuple[str, ...]:
    protocol = files.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
