"""Rounds of transfers that are interrupted: fetches, pushes, wheels, and the registry of both."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.helpers.builds import tree
from tests.helpers.kills.signals import Signal, resume
from tests.helpers.kills.supervised import Ended, Supervised
from tests.helpers.kills.tally import Tally
from tests.helpers.kills.transfers import LIMIT, TransferSite
from tests.helpers.web.served import Served, serve_as

FETCH, PUSH, REGISTRY, WHEEL = "fetch", "push", "registry", "wheel"
KINDS = (FETCH, PUSH, REGISTRY, WHEEL)
NEED_REGISTRY = (PUSH, REGISTRY)
_GROUP = 3  # so many runs are interrupted before one is left in peace
_INTERRUPTED, _FAILED = 130, 1

Start = Callable[[], Supervised]


def interrupt_transfers(kind: str, number: int, folder: Path, seed: int) -> Tally:
    """Send a signal to processes of this kind so many times."""
    with serve_as("files", folder / "served") as served:
        rounds = _Rounds(kind, TransferSite(folder / "site"), served, random.Random(f"{kind} {seed}"))
        try:
            return rounds.run(number)
        finally:
            rounds.site.registry.end()


class _Rounds:
    """The rounds of one kind."""

    def __init__(self, kind: str, site: TransferSite, served: Served, chances: random.Random) -> None:
        self.kind, self.site, self.chances, self.tally = kind, site, chances, Tally(kind)
        self._url = served.reference
        self._groups = 0
        self._wheel: dict[str, bytes] = {}
        served.put(site.after)

    def run(self, number: int) -> Tally:
        """Groups of interrupted runs, each followed by one that nothing disturbs."""
        if self.kind in NEED_REGISTRY:
            self.site.registry.start()
        self.site.undo()
        self.tally.broken += self._peaceful()
        while self.tally.number < number and len(self.tally.broken) < number:
            self._groups += 1
            self.site.undo()
            for _ in range(_GROUP):
                self._note(self._interrupted_registry() if self.kind == REGISTRY else self._interrupted())
                self._note(self.site.problems())
                if self.tally.number >= number:
                    break
            self._note(self._peaceful())
        return self.tally

    def _note(self, broken: Iterator[str]) -> None:
        self.tally.broken += [f"round {self.tally.number}: {text}" for text in broken]

    @property
    def _reference(self) -> str:
        """Where a push puts the cache; another one for each group, else nothing would be sent."""
        return f"oci://{self.site.registry.host}/kernels/r{self._groups}:v1"

    def _start(self) -> Supervised:
        """Start a run of this kind."""
        if self.kind == WHEEL:
            return self.site.precast("wheel", self.site.after, "-o", self.site.dist)
        if self.kind in NEED_REGISTRY:
            return self.site.precast("push", self.site.after, self._reference)
        if self._groups % 2:
            return self.site.loader_fetch(self._url)
        return self.site.precast("fetch", self._url, "-o", self.site.target)

    def _interrupted(self) -> Iterator[str]:
        """A run that is interrupted; what then does not hold."""
        chosen, running = self.chances.choice(list(Signal)), self._start()
        running.until(lambda: [running.pid], 1.1 * self.chances.random() * self._whole)
        if not running.runs or not chosen.send(running.pid, self.chances):
            self._end(running)
            return
        if chosen is Signal.STOP:  # another fetch into the same folder is refused, everything else can be done
            other = self._start().end(LIMIT, besides=(running.pid, self.site.registry.pid))
            if other.code not in ((0, _FAILED) if self.kind == FETCH else (0,)):
                yield f"beside a stopped {self.kind} another ends with {other.code}: {other.errors[-500:]}"
            resume(running.pid)
        self.tally.signals[chosen.value] += 1
        yield from self._wrong(chosen.value, self._end(running), {
            Signal.KILL: (-9, 0), Signal.TERMINATE: (-15, _INTERRUPTED, 0), Signal.STOP: (0,), Signal.PAUSE: (0,),
        }[chosen])  # fmt: skip

    def _interrupted_registry(self) -> Iterator[str]:
        """A push or a fetch whose registry is interrupted. It is started again during the run, or after it."""
        registry, push = self.site.registry, self.chances.random() < 0.5
        running = self._start() if push else self.site.precast("fetch", self._pushed, "-o", self.site.target)
        running.until(lambda: [running.pid], 1.1 * self.chances.random() * self._whole)
        if running.runs:
            chosen = self.chances.choice((Signal.KILL, Signal.TERMINATE, Signal.PAUSE))
            chosen.send(registry.pid, self.chances)
            self.tally.signals[chosen.value] += 1
            if chosen is not Signal.PAUSE and self.chances.random() < 0.8:
                time.sleep(self.chances.uniform(0.1, 2))
                registry.end()
                registry.start()
            yield from self._wrong(f"{chosen.value} of the registry", self._end(running), (0, _FAILED))
        else:
            self._end(running)
        registry.start()

    def _peaceful(self) -> Iterator[str]:
        """A run that nothing disturbs."""
        running = self._start()
        ended = self._end(running)
        yield from self._wrong("no signal", ended, (0,))
        if not self.tally.number:
            self._whole = ended.seconds
        if self.kind in NEED_REGISTRY:
            if not self.site.fetched_from(self._reference, self.site.folder / "again"):
                yield "what was pushed has other bytes"
            self._pushed = self._reference
        if self.kind == FETCH and tree(self.site.target) != self.site.new:
            yield "the next fetch gives other bytes"
        if self.kind == WHEEL:
            self._wheel = self._wheel or tree(self.site.dist)
            if tree(self.site.dist) != self._wheel:
                yield f"the wheels differ: {sorted(tree(self.site.dist))}"
        yield from self.site.leftovers()

    def _end(self, running: Supervised) -> Ended:
        ended = running.end(running.seconds + LIMIT, besides=(self.site.registry.pid,))
        self.tally.longest = max(self.tally.longest, ended.seconds)
        return ended

    def _wrong(self, what: str, ended: Ended, expected: tuple[int, ...]) -> Iterator[str]:
        """Whether a run ended as it should."""
        self.tally.ends[str(ended.code)] += 1
        if ended.code not in expected:
            yield f"{what}: exit status {ended.code} after {ended.seconds:.0f} s: {ended.errors[-500:]}"
        if "Traceback (most recent call last)" in ended.errors and ended.code not in (-15, _INTERRUPTED):
            yield f"{what}: {ended.errors[-1500:]}"
        if ended.code == _FAILED:
            self.tally.reasons[ended.errors.strip().splitlines()[-1][:200]] += 1
        yield from (f"{what}: left running: {line}" for line in ended.orphans)
