"""The part that runs on a machine of a cluster: it takes a parcel as bytes, and returns a reply as bytes.

A worker process compiles, as in a local build. It is kept for the next parcel of its group, and ended when idle.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from precast.build.compile.parcel import Parcel, this_builder
from precast.build.compile.worker import Worker
from precast.build.ipc.child_process import ChildLost
from precast.build.ipc.message import Message
from precast.loader.errors import PrecastError

_IDLE_SECONDS = 30.0


def describe() -> dict[str, str]:
    """The versions on this machine that affect compiled bytes, for the machine that sends parcels to it."""
    return this_builder()


def compile_parcel(data: bytes) -> bytes:
    """Compile a parcel. Returns the worker's reply, or how the worker was lost, or why it cannot compile here."""
    try:
        parcel = Parcel.decode(data)
        held = _workers.take(parcel)
    except _Unlike as error:
        return Message({"unlike": list(error.args)}).encode()
    except PrecastError as error:
        return Message({"refused": str(error)}).encode()
    worker = held.worker
    worker.send(Message(dict(parcel.request)))
    try:
        reply = worker.receive(parcel.seconds)
    except ChildLost as lost:
        held.end()
        return Message({"lost": str(lost), "output": lost.output}).encode()
    except BaseException:
        held.end()
        raise
    answer = Message({"reply": dict(reply.header), "output": worker.output}, reply.parts)
    _workers.give_back(held)
    return answer.encode()


class _Unlike(Exception):
    """This machine differs from the one that sent the parcel. The arguments are the differences."""


@dataclass(eq=False)
class _HeldWorker:
    """A worker process and the folder with the sources that it imports from."""

    group: tuple[object, ...]
    worker: Worker
    folder: tempfile.TemporaryDirectory[str]
    idle_since: float = 0.0

    def end(self) -> None:
        self.worker.kill()
        self.folder.cleanup()


@dataclass
class _IdleWorkers:
    """The idle worker processes of this machine."""

    idle: list[_HeldWorker] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, parcel: Parcel) -> _HeldWorker:
        """A worker for a parcel: an idle one of its group, or a new one that replaces an idle one of another group."""
        with self.lock:
            idle = next((s for s in self.idle if s.group == parcel.group), None)
            removed = idle or next(iter(self.idle), None)
            if removed is not None:
                self.idle.remove(removed)
        if idle is not None:
            return idle
        if removed is not None:
            removed.end()
        folder = tempfile.TemporaryDirectory(prefix="precast-", dir=_scratch())
        search = parcel.unpack(Path(folder.name))
        unlike = parcel.unlike(search)
        if unlike:
            folder.cleanup()
            raise _Unlike(*unlike)
        worker = Worker(parcel.target, parcel.env, search, parcel.profile, warm_up=True)
        return _HeldWorker(parcel.group, worker, folder)

    def give_back(self, held: _HeldWorker) -> None:
        """Keep a worker for a while."""
        held.idle_since = time.monotonic()
        with self.lock:
            self.idle.append(held)
        timer = threading.Timer(_IDLE_SECONDS, self._end_old)
        timer.daemon = True
        timer.start()

    def _end_old(self) -> None:
        latest = time.monotonic() - _IDLE_SECONDS + 0.1
        with self.lock:
            old = [s for s in self.idle if s.idle_since <= latest]
            self.idle = [s for s in self.idle if s.idle_since > latest]
        for held in old:
            held.end()


_workers = _IdleWorkers()


def _scratch() -> str | None:
    """The folder of the Dask worker, which Dask deletes if the worker is killed; the default one without Dask."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None
