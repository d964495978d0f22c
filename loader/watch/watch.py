"""What watches a session: the log, the file of requests and the dumps, as the variables ask for them.

Whatever fails here is told once, and is no error of the program that is watched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.config import config_text
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import FormatError, OpNotFound, PrecastError, VariantNotFound
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.kernel import Kernel
from precast.loader.machine.driver import Driver
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.discover import DiscoveredCache
from precast.loader.resolve.resolution import Resolution
from precast.loader.watch.notice import notice

if TYPE_CHECKING:
    import logging

    from precast.loader.watch.dumper import Dumper
    from precast.loader.watch.request_file import RequestFile


class Asked(Immutable, kw_only=True):
    """The arguments of a ``get``, and what the session can say of them."""

    op: Any
    config: Any
    device: object
    target: Any
    problem: Any
    verified: bool
    machine: Callable[[], Machine]
    explain: Callable[[], Resolution]

    @property
    def remembered_by(self) -> tuple[Any, ...]:
        """The key that ``get`` remembers a kernel by. One with a list in it is not remembered."""
        items = () if self.config is None else tuple(self.config.items())
        sizes = tuple(self.problem.items()) if self.problem else None
        types = tuple([type(value) for _, value in items])
        key = (self.op, self.device, self.target, sizes, self.verified, items, types)
        try:
            hash(key)
        except TypeError:
            return (repr(key),)
        return key

    def __str__(self) -> str:
        config = config_text(self.config) if isinstance(self.config, Mapping) else self.config or "{}"
        more = {"device": self.device, "target": self.target, "problem": self.problem}
        more |= {"verified": True} if self.verified else {}
        return f"{self.op} {config}" + "".join(f", {name} {value}" for name, value in more.items() if value is not None)


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
            near = rejected[0].candidate
            text += f"; nearest {config_text(near.config)} for {near.target}: {'; '.join(rejected[0].reasons)}"
        return "".join(c for c in text if c.isprintable())


class Watch:
    """Tells what a session does."""

    def __init__(self, log: logging.Logger | None, requests: RequestFile | None, dumper: Dumper | None) -> None:
        self._log, self._requests, self._dumper = log, requests, dumper

    @classmethod
    def of(cls, variables: Mapping[str, str], driver: Callable[[], Driver]) -> Watch | None:
        """What the variables ask for; None where they ask for nothing after all."""
        log = requests = dumper = None
        try:
            if variables.get("PRECAST_LOG", "0") not in ("", "0"):  # else logging need not be imported
                with IMPORT_LOCK:
                    from precast.loader.watch.log import logger_for
                log = logger_for(variables)
            if variables.get("PRECAST_REQUESTS"):
                with IMPORT_LOCK:
                    from precast.loader.watch.request_file import RequestFile
                requests = RequestFile(os.path.abspath(variables["PRECAST_REQUESTS"]))
            if variables.get("PRECAST_DUMP"):
                with IMPORT_LOCK:
                    from precast.loader.watch.dumper import Dumper
                dumper = Dumper.of(variables, driver)
        except Exception as error:
            notice(f"watching could not begin ({error})")
        return cls(log, requests, dumper) if log or requests or dumper else None

    def flush(self) -> None:
        """Write the counts of requests down now."""
        if self._requests is not None:
            self._requests.flush()

    def kernels(self) -> dict[tuple[Any, ...], Kernel]:
        """The table of a session's kernels by the arguments of ``get``; it counts where requests are noted."""
        return {} if self._requests is None else _Counted(self._requests.again)

    def found_caches(self, found: Iterable[DiscoveredCache]) -> None:
        """Tell which caches there are."""
        if self._log is None:
            return
        for one in found:
            if one.cache is not None:
                self._log.info("cache %s at %s, index %s", one, one.path, one.cache.digest[:12])
            else:
                self._log.warning("cache left out: %s%s", _code(one.error), one)

    def resolved(self, asked: Asked, outcome: Outcome) -> None:
        """Tell how a request ended."""
        try:
            if self._log is not None:
                self._tell(self._log, asked, outcome)
            if self._requests is not None:
                self._note(self._requests, asked, outcome)
        except Exception as problem:
            notice(f"a request could not be told of ({type(problem).__name__}: {problem})")

    def opened(self, kernel: Kernel, cache: Cache, seconds: float) -> Kernel:
        """Tell what was loaded, and watch its calls."""
        if self._log is not None:
            artifact = kernel.artifact
            what = (kernel.op, config_text(kernel.config), kernel.target, artifact.key[:12], cache.name)
            self._log.info(
                "loaded %s %s for %s: %s of cache %s, %d bytes stored, %d opened, %.2f ms",
                *what, artifact.blob.stored, artifact.blob.size, seconds * 1e3,
            )  # fmt: skip
        if self._log is None and self._dumper is None:
            return kernel
        with IMPORT_LOCK:
            from precast.loader.watch.watched_kernel import WatchedKernel
        return WatchedKernel(kernel, cache, self._log, self._dumper)

    def _tell(self, log: logging.Logger, asked: Asked, outcome: Outcome) -> None:
        kernel, cache = outcome.kernel, outcome.cache
        if kernel is None or cache is None:
            tell = log.warning if isinstance(outcome.error, PrecastError) else log.error
            tell("missing %s: %s%s", asked, _code(outcome.error), outcome.failure)
            log.debug("all of it: %s", outcome.error)
            return
        resolution = asked.explain()
        reasons = [f"the first of {len(resolution.accepted)} that fit"]
        reasons += [str(resolution.measured)] if resolution.measured else []
        reasons += [one.reservation for one in resolution.accepted[:1] if one.reservation]
        what = (asked, kernel.artifact.key, kernel.target, cache.name, "; ".join(reasons))
        log.info("resolved %s: %s for %s of cache %s: %s", *what)
        for one in resolution.rejected:
            log.debug("refused for %s: %r: %s", asked, one.candidate, "; ".join(one.reasons))

    def _note(self, file: RequestFile, asked: Asked, outcome: Outcome) -> None:
        with IMPORT_LOCK:
            from precast.loader.contract.diagnostics.requests import Requested
            from precast.loader.watch.manifest_entry import plain_config, wanted_of_artifact, wanted_of_error
        op, plain, kernel, cache = asked.op, plain_config(asked.config), outcome.kernel, outcome.cache
        if plain is None or not isinstance(op, str):
            return  # no config: it is an error of the program, which no build would help
        here, wanted = asked.machine(), None
        if kernel is not None and cache is not None:
            wanted = wanted_of_artifact(op, kernel.artifact, cache.op(op).keys)
        elif isinstance(outcome.error, (VariantNotFound, OpNotFound)):
            wanted = wanted_of_error(outcome.error, op, plain, here)
        requested = Requested(
            op=op,
            config=plain,
            target=asked.target,
            capability=str(here.capability) if here.capability else None,
            problem=dict(asked.problem) if asked.problem else None,
            found=kernel.artifact.key if kernel is not None else None,
            cache=cache.name if cache is not None else None,
            missing=None if kernel is not None else outcome.failure,
            wanted=wanted,
        )
        for one in (requested, replace(requested, wanted=None)):
            try:
                readable = Requested.parse(one.to_json())
            except FormatError:  # a reader would refuse the line: of its entry, or of a request that nothing serves
                continue
            file.note(readable, asked.remembered_by)
            return


def _code(error: Exception | None) -> str:
    """The code of an error of precast, to be written before it; nothing for another one."""
    return f"{error.code} " if isinstance(error, PrecastError) else ""


class _Counted(dict[tuple[Any, ...], Kernel]):
    """Kernels by the arguments of ``get``; what is read is counted."""

    def __init__(self, again: Callable[[Any], None]) -> None:
        super().__init__()
        self._again = again

    def __getitem__(self, key: Any) -> Kernel:
        kernel = super().__getitem__(key)
        self._again(key)
        return kernel
