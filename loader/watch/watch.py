"""What watches a session: the log and the file of requests, as the variables ask for them.

A failure here is reported once on standard error, and never raised into the program that is watched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from precast.loader.contract.format.config import config_text
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import FormatError, OpNotFound, PrecastError, VariantNotFound
from precast.loader.launch.kernel import Kernel
from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.discover import DiscoveredCache
from precast.loader.resolve.resolution import Resolution
from precast.loader.watch.notice import notice

if TYPE_CHECKING:
    import logging

    from precast.loader.watch.request_file import RequestFile


class Resolver(Protocol):
    """What explains a request: a session."""

    def machine(self, request: Request) -> Machine:
        """The machine to resolve a request for."""
        ...

    def explain(self, request: Request) -> Resolution:
        """The decision about a request."""
        ...


class Outcome(Immutable):
    """How a request ended: with a kernel and the cache that it is from, or with an error."""

    kernel: Kernel | None = None
    cache: Cache | None = None
    error: Exception | None = None

    @property
    def failure(self) -> str:
        """The error on one line: its type, its first line, and of a decision why the nearest variant does not serve."""
        text = f"{type(self.error).__name__}: {self.error}".partition("\n")[0]
        rejected = getattr(getattr(self.error, "resolution", None), "rejected", None)
        if rejected:
            nearest = rejected[0].candidate
            text += f"; nearest {config_text(nearest.config)} for {nearest.target}: {'; '.join(rejected[0].reasons)}"
        return "".join(c for c in text if c.isprintable())


class Watch:
    """Logs and records what a session does."""

    def __init__(self, log: logging.Logger | None, requests: RequestFile | None) -> None:
        self._log, self._requests = log, requests

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Watch | None:
        """What the variables ask for; None where they ask for nothing after all."""
        log = requests = None
        try:
            if variables.get("PRECAST_LOG", "0") not in ("", "0"):  # else logging need not be imported
                with IMPORT_LOCK:
                    from precast.loader.watch.log import logger_for
                log = logger_for(variables)
            if variables.get("PRECAST_REQUESTS"):
                with IMPORT_LOCK:
                    from precast.loader.watch.request_file import RequestFile
                requests = RequestFile(os.path.abspath(variables["PRECAST_REQUESTS"]))
        except Exception as error:
            notice(f"could not start watching ({error})")
        return cls(log, requests) if log or requests else None

    def flush(self) -> None:
        """Write the counts of requests to the file now."""
        if self._requests is not None:
            self._requests.flush()

    def memo(self) -> dict[tuple[Any, ...], Kernel]:
        """The table of a session's kernels by ``memo_key``; it counts reads where requests are recorded."""
        return {} if self._requests is None else _CountingMemo(self._requests.count)

    def discovered(self, caches: Iterable[DiscoveredCache]) -> None:
        """Log which caches there are."""
        if self._log is None:
            return
        for each in caches:
            if each.cache is not None:
                self._log.info("cache %s at %s, index %s", each, each.path, each.cache.digest[:12])
            else:
                self._log.warning("cache left out: %s%s", _code(each.error), each)

    def resolved(
        self,
        request: Request,
        resolver: Resolver,
        *,
        kernel: Kernel | None = None,
        cache: Cache | None = None,
        error: Exception | None = None,
    ) -> None:
        """Log and record how a request ended: with a kernel and its cache, or with an error."""
        outcome = Outcome(kernel, cache, error)
        try:
            if self._log is not None:
                _log(self._log, request, resolver, outcome)
            if self._requests is not None:
                _record(self._requests, request, resolver, outcome)
        except Exception as problem:
            notice(f"could not log a request ({type(problem).__name__}: {problem})")

    def opened(self, kernel: Kernel, cache: Cache, seconds: float) -> Kernel:
        """Log what was loaded, and watch its calls."""
        if self._log is None:
            return kernel
        artifact = kernel.artifact
        what = (kernel.op, config_text(kernel.config), kernel.target, artifact.key[:12], cache.name)
        self._log.info(
            "loaded %s %s for %s: %s of cache %s, %d bytes stored, %d opened, %.2f ms",
            *what, artifact.blob.stored, artifact.blob.size, seconds * 1e3,
        )  # fmt: skip
        with IMPORT_LOCK:
            from precast.loader.watch.watched_kernel import WatchedKernel
        return WatchedKernel(kernel, self._log)


def _log(log: logging.Logger, request: Request, resolver: Resolver, outcome: Outcome) -> None:
    kernel, cache = outcome.kernel, outcome.cache
    if kernel is None or cache is None:
        level = log.warning if isinstance(outcome.error, PrecastError) else log.error
        level("missing %s: %s%s", request, _code(outcome.error), outcome.failure)
        log.debug("in full: %s", outcome.error)
        return
    resolution = resolver.explain(request)
    reasons = [f"the first of {len(resolution.accepted)} that fit"]
    reasons += [str(resolution.measured)] if resolution.measured else []
    reasons += [accepted.reservation for accepted in resolution.accepted[:1] if accepted.reservation]
    what = (request, kernel.artifact.key, kernel.target, cache.name, "; ".join(reasons))
    log.info("resolved %s: %s for %s of cache %s: %s", *what)
    for rejected in resolution.rejected:
        log.debug("refused for %s: %r: %s", request, rejected.candidate, "; ".join(rejected.reasons))


def _record(file: RequestFile, request: Request, resolver: Resolver, outcome: Outcome) -> None:
    with IMPORT_LOCK:
        from precast.loader.contract.diagnostics.requests import RequestRecord
        from precast.loader.watch.manifest_entry import entry_for_artifact, entry_for_error, plain_config
    op, config, kernel, cache = request.op, plain_config(request.config), outcome.kernel, outcome.cache
    if config is None or not isinstance(op, str):
        return  # no config: it is an error of the program, which no build would help
    machine, entry = resolver.machine(request), None
    if kernel is not None and cache is not None:
        entry = entry_for_artifact(op, kernel.artifact, cache.op(op).keys)
    elif isinstance(outcome.error, (VariantNotFound, OpNotFound)):
        entry = entry_for_error(outcome.error, op, config, machine)
    record = RequestRecord(
        op=op,
        config=config,
        target=request.target,
        capability=str(machine.capability) if machine.capability else None,
        problem=dict(request.problem) if request.problem else None,
        found=kernel.artifact.key if kernel is not None else None,
        cache=cache.name if cache is not None else None,
        missing=None if kernel is not None else outcome.failure,
        wanted=entry,
    )
    for candidate in (record, replace(record, wanted=None)):
        try:
            readable = RequestRecord.parse(candidate.to_json())
        except FormatError:  # a reader would refuse the line: for its entry, or for a request that nothing serves
            continue
        file.add(readable, request.memo_key)
        return


def _code(error: Exception | None) -> str:
    """The code of an error of precast, to be written before it; nothing for another one."""
    return f"{error.code} " if isinstance(error, PrecastError) else ""


class _CountingMemo(dict[tuple[Any, ...], Kernel]):
    """Kernels by ``memo_key``; each read is counted."""

    def __init__(self, count: Callable[[Any], None]) -> None:
        super().__init__()
        self._count = count

    def __getitem__(self, key: Any) -> Kernel:
        kernel = super().__getitem__(key)
        self._count(key)
        return kernel
