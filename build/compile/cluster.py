"""The cluster: variants are compiled by the workers of a Dask cluster that is running already.

Parcels and answers are bytes; no disk is shared. Dask sends a task's function by pickle, so use only a cluster that you
trust: its scheduler can run code on every machine that connects.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from precast.build.compile import cluster_worker
from precast.build.compile.outcome import Failed, Outcome, outcome_of
from precast.build.compile.parcel import differences, parcel_for, this_builder
from precast.build.errors import ClusterError
from precast.build.ipc.child_process import ChildLost
from precast.build.ipc.message import Message
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.loader.errors import FormatError

_CODE = ClusterError.code
_CHECK_SECONDS = 2.0
_CONNECT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The Dask cluster with a scheduler at ``address``. It may have no worker for ``patience`` seconds."""

    address: str
    patience: float = 60.0

    def compile(
        self, plan: Plan, variants: Sequence[Variant], *, seconds: float, twice: Collection[str] = ()
    ) -> Iterator[Outcome]:
        """Compile on the cluster. The variants of a lost machine are tried again on others."""
        if not variants:
            return
        with contextlib.closing(_connect(self.address)) as client:
            _check(client, self.patience)
            yield from _Sending(client, plan, seconds, self.patience, twice).all(variants)


class _Sending:
    """Keeps as many parcels in flight as the cluster can use, and collects the answers."""

    def __init__(self, client: Any, plan: Plan, seconds: float, patience: float, twice: Collection[str] = ()) -> None:
        self._client, self._plan, self._seconds, self._patience = client, plan, seconds, patience
        self._twice = twice
        self._in_flight: dict[str, tuple[Variant, Any]] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._empty_since: float | None = None

    def all(self, variants: Sequence[Variant]) -> Iterator[Outcome]:
        # Sorted by group, so that a variant finds the worker process of the one before it.
        left = iter(sorted(variants, key=lambda v: (str(v.target), v.profile, sorted(v.env.items()), v.source)))
        more = True
        try:
            while more or self._in_flight:
                while more and len(self._in_flight) < self._room:
                    variant = next(left, None)
                    if variant is None:
                        more = False
                    else:
                        self._send(variant)
                if (key := self._wait()) is not None:
                    variant, future = self._in_flight.pop(key)
                    yield _outcome(variant, future)
        finally:
            with contextlib.suppress(Exception):  # the error that ended the build is the one to report
                self._client.cancel([future for _, future in self._in_flight.values()], force=True)

    @property
    def _room(self) -> int:
        """Two parcels a thread: one being compiled, one waiting on its machine."""
        return 2 * max(1, self._threads())

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except Exception as error:
            raise _lost(error) from error

    def _send(self, variant: Variant) -> None:
        parcel = parcel_for(variant, self._plan, self._seconds, twice=variant.identity in self._twice).encode()
        future = self._client.submit(cluster_worker.compile_parcel, parcel, pure=False)
        self._in_flight[future.key] = variant, future
        future.add_done_callback(lambda done: self._done.put(done.key))

    def _wait(self) -> str | None:
        """The next answer, or None when it is time to check whether any worker is left."""
        if not self._in_flight:
            return None
        with contextlib.suppress(queue.Empty):
            return self._done.get(timeout=_CHECK_SECONDS)
        if self._threads():
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = time.monotonic()
        elif time.monotonic() - self._empty_since > self._patience:
            raise ClusterError(
                f"the cluster has had no worker for {self._patience:g} s: start some, and build again; "
                "finished variants are kept"
            )
        return None


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("Dask is not installed: pip install 'precast[dask]'") from None
    try:
        _check_port(address)
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler at {address!r} ({error}): give its address, such as tcp://10.0.0.5:8786"
        ) from None


def _check_port(address: str) -> None:
    """Check that something listens at the address: Dask itself would retry for a long time."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("tcp", "tls"):
        if not parts.hostname or not parts.port:
            raise ValueError("not host:port")
        socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT_SECONDS).close()


def _check(client: Any, patience: float) -> None:
    """Check that every worker has the same versions as this machine: otherwise its objects would differ."""
    from distributed import TimeoutError as DaskTimeout

    try:
        client.wait_for_workers(1, timeout=patience)
        answers = client.run(cluster_worker.describe, on_error="return")
    except (DaskTimeout, TimeoutError):
        raise ClusterError(f"the cluster has had no worker for {patience:g} s: start some") from None
    except Exception as error:
        raise _lost(error) from error
    here = this_builder()
    lines: list[str] = []
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            lines.append(f"{worker} cannot list what it has installed: {type(answer).__name__}: {answer}")
        elif isinstance(answer, dict):
            lines += [f"{worker}: {line}" for line in differences(here, answer)]
    if lines:
        raise _mismatch(lines)


def _outcome(variant: Variant, future: Any) -> Outcome:
    if future.status == "cancelled":
        raise _lost("it dropped a task")
    if future.status == "error":
        return _broken(variant, future.exception())
    try:
        answer = Message.decode(future.result())
    except (FormatError, TypeError) as error:
        return Failed(variant=variant, reason=f"the cluster's reply cannot be read: {error}", code=_CODE)
    header = answer.header
    if "unlike" in header:
        raise _mismatch([str(line) for line in header["unlike"]])
    if "refused" in header:
        return Failed(variant=variant, reason=f"the cluster refused it: {header['refused']}", code=_CODE)
    output = str(header.get("output", ""))
    if "lost" in header:
        return Failed(variant=variant, reason=str(header["lost"]), details=output, code=ChildLost.code)
    return outcome_of(variant, Message(header.get("reply", {}), answer.parts), output)


def _broken(variant: Variant, error: BaseException) -> Outcome:
    if type(error).__name__ == "KilledWorker":
        return Failed(variant=variant, reason="every worker of the cluster that compiled it was lost", code=_CODE)
    return Failed(variant=variant, reason=f"the cluster failed on it: {type(error).__name__}: {error}", code=_CODE)


def _mismatch(differences: Sequence[str]) -> ClusterError:
    text = "\n".join(f"  {line}" for line in differences)
    return ClusterError(
        f"the cluster's packages differ from this machine's:\n{text}\nInstall the same precast[dask] on all machines."
    )


def _lost(error: object) -> ClusterError:
    return ClusterError(
        f"the cluster's scheduler was lost ({error}): build again when it is back; finished variants are kept"
    )
