"""There: what runs on a machine of a cluster. A parcel comes in as bytes, an answer goes out as bytes.

The compiling is done by the same worker process as at home, one for each kind of request, kept for the next parcel
of its kind and ended when none comes.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from precast.build.compile.parcel import Parcel, this_builder
from precast.build.compile.worker import Worker, WorkerLost
from precast.build.ipc.message import Message
from precast.loader.errors import PrecastError

_IDLE_SECONDS = 30.0


def describe() -> dict[str, str]:
    """What this machine is like, for the one that wants to send parcels to it."""
    return this_builder()


def compile_parcel(data: bytes) -> bytes:
    """Compile a parcel. The answer is a message with what the worker replied, or what became of it, or why not here."""
    try:
        parcel = Parcel.decode(data)
        seat = _seats.take(parcel)
    except _Unlike as error:
        return Message({"unlike": list(error.args)}).encode()
    except PrecastError as error:
        return Message({"refused": str(error)}).encode()
    worker = seat.worker
    worker.send(Message(dict(parcel.request)))
    try:
        reply = worker.receive(parcel.seconds)
    except WorkerLost as lost:
        seat.leave()
        return Message({"lost": str(lost), "output": lost.output}).encode()
    except BaseException:
        seat.leave()
        raise
    answer = Message({"reply": dict(reply.header), "output": worker.output}, reply.parts)
    _seats.give_back(seat)
    return answer.encode()


class _Unlike(Exception):
    """This machine differs from the one that sent the parcel; the arguments say in what."""


@dataclass(eq=False)
class _Seat:
    """A worker process and the folder with the sources that it imports from."""

    group: tuple[object, ...]
    worker: Worker
    folder: tempfile.TemporaryDirectory[str]
    idle_since: float = 0.0

    def leave(self) -> None:
        self.worker.kill()
        self.folder.cleanup()


@dataclass
class _Seats:
    """The worker processes of this machine that have nothing to do."""

    idle: list[_Seat] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, parcel: Parcel) -> _Seat:
        """A process for a parcel: an idle one of its kind, else a new one, for which an idle one of another goes."""
        with self.lock:
            found = next((s for s in self.idle if s.group == parcel.group), None)
            left = found or next(iter(self.idle), None)
            if left is not None:
                self.idle.remove(left)
        if found is not None:
            return found
        if left is not None:
            left.leave()
        folder = tempfile.TemporaryDirectory(prefix="precast-", dir=_scratch())
        search = parcel.unpack(Path(folder.name))
        unlike = parcel.unlike(search)
        if unlike:
            folder.cleanup()
            raise _Unlike(*unlike)
        return _Seat(parcel.group, Worker(parcel.target, parcel.env, search, parcel.profile), folder)

    def give_back(self, seat: _Seat) -> None:
        """Keep a process for a while."""
        seat.idle_since = time.monotonic()
        with self.lock:
            self.idle.append(seat)
        timer = threading.Timer(_IDLE_SECONDS, self._tidy)
        timer.daemon = True
        timer.start()

    def _tidy(self) -> None:
        latest = time.monotonic() - _IDLE_SECONDS + 0.1
        with self.lock:
            leaving = [s for s in self.idle if s.idle_since <= latest]
            self.idle = [s for s in self.idle if s.idle_since > latest]
        for seat in leaving:
            seat.leave()


_seats = _Seats()


def _scratch() -> str | None:
    """The folder that Dask gives a worker, and clears if the worker is killed; else the usual one."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None
