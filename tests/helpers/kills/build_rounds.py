"""Rounds of builds whose processes are interrupted."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.helpers.builds import tree
from tests.helpers.kills.processes import BUILDER, DESCRIBER, MODULE, TOOL, VARIANT, WORKER, running
from tests.helpers.kills.signals import Signal, resume
from tests.helpers.kills.site import LIMIT, Site
from tests.helpers.kills.supervised import Ended, Supervised
from tests.helpers.kills.tally import Tally

KINDS = (BUILDER, WORKER, MODULE, VARIANT, DESCRIBER, TOOL)
ANY = "any"
"""Each time one of those whose end a build survives, so that a few signals reach all of them."""
_SURVIVED = (WORKER, MODULE, VARIANT, TOOL)
_ENDS_QUICKLY = 15.0  # seconds, for a build that is to end
_GROUP = {BUILDER: 3, DESCRIBER: 4}  # so many builds are interrupted before one is left in peace
_DELAYS = {TOOL: 0.005, DESCRIBER: 2.0}  # seconds, at most, of a process's life before it is interrupted
_MOST_BLOWS = {BUILDER: 1, DESCRIBER: 1}
_INTERRUPTED, _FAILED, _WRONG = 130, 1, 2


def interrupt_builds(kind: str, number: int, folder: Path, seed: int) -> Tally:
    """Send a signal to processes of this kind so many times."""
    site, chances, tally = Site(folder), random.Random(f"{kind} {seed}"), Tally(kind)
    while tally.number < number and len(tally.broken) < number:
        for number_in_group in range(_GROUP.get(kind, 2)):
            if number_in_group == 0 or kind == DESCRIBER:  # kernels that were described once are not described again
                site.undo(chances, described=kind != DESCRIBER)
            tally.broken += [f"round {tally.number}: {text}" for text in _one_build(site, kind, chances, tally)]
            if tally.number >= number:
                break
        tally.broken += [f"round {tally.number}: {text}" for text in site.next_build()]
        print(f"{kind}: {tally.number} of {number}", file=sys.stderr, flush=True)
    return tally


def _one_build(site: Site, kind: str, chances: random.Random, tally: Tally) -> Iterator[str]:
    """Run a build and send signals to some of its processes; what then does not hold."""
    build = site.build(chances.choice((1, 1, 2)))
    signals: list[Signal] = []
    most = chances.randint(1, _MOST_BLOWS.get(kind, 6))
    for _ in range(most):
        moment = build.seconds + (chances.random() * site.whole_build / most if kind != DESCRIBER else 0)
        one = chances.choice(_SURVIVED) if kind == ANY else kind
        chosen = chances.choice(list(Signal))
        if _send_to_one(build, one, moment, chosen, chances):
            signals.append(chosen)
            tally.signals[chosen.value] += 1
    interrupted = build.seconds
    if kind == BUILDER and signals == [Signal.STOP]:
        yield from _another_build(site, build)
    ended = build.end(max(LIMIT, build.seconds + LIMIT / 2))
    tally.longest = max(tally.longest, ended.seconds)
    tally.ends[str(ended.code)] += bool(signals)
    yield from _wrong_end(kind, signals, ended, ended.seconds - interrupted, tally)
    yield from site.problems()


def _send_to_one(build: Supervised, kind: str, moment: float, chosen: Signal, chances: random.Random) -> bool:
    """Send a signal to a process of this kind, soon after one is there from now on; a linker ends in 20 ms."""
    while build.until(partial(running, build.pid, kind), moment):
        time.sleep(chances.random() * _DELAYS.get(kind, 0.03))
        pids = running(build.pid, kind)
        if pids and chosen.send(chances.choice(pids), chances):
            return True
    return False


def _another_build(site: Site, stopped: Supervised) -> Iterator[str]:
    """While a build is stopped, another one does the same; then the first continues."""
    other = site.build().end(LIMIT, besides=(stopped.pid,))
    if other.code != 0 or tree(site.cache) != site.new:
        yield f"beside a stopped build another ends with {other.code}: {other.errors[-500:]}"
    resume(stopped.pid)


def _wrong_end(kind: str, signals: list[Signal], ended: Ended, since: float, tally: Tally) -> Iterator[str]:
    """Whether a build ended as it should, after these signals."""
    what = f"{', '.join(chosen.value for chosen in signals) or 'no signal'}: exit status {ended.code}"
    yield from (f"{what}: left running: {line}" for line in ended.orphans)
    if ended.code is None:
        yield f"{what}: no end in {ended.seconds:.0f} s: {ended.errors[-500:]}"
        return
    if "Traceback (most recent call last)" in ended.errors and ended.code not in (_INTERRUPTED, -15):
        yield f"{what}: {ended.errors[-1500:]}"
    if kind == BUILDER:
        expected = {Signal.KILL: (-9, 0), Signal.TERMINATE: (_INTERRUPTED, -15, 0)}.get(
            signals[0] if signals else Signal.STOP, (0,)
        )
        if ended.code not in expected or (signals == [Signal.TERMINATE] and since > _ENDS_QUICKLY):
            yield f"{what}, {since:.0f} s later: {ended.errors[-500:]}"
        return
    harmless = all(chosen is Signal.PAUSE for chosen in signals)
    if ended.code not in ((0,) if harmless else (0, _FAILED, _WRONG)):
        yield f"{what}: {ended.errors[-500:]}"
    failed = list(_failed(ended.output))
    if ended.code and not failed and not ended.errors.strip():
        yield f"{what}: no reason is printed"
    tally.reasons.update(failed or ([ended.errors.strip().splitlines()[-1][:200]] if ended.code else []))


def _failed(output: str) -> Iterator[str]:
    """The reasons of the variants that failed."""
    for line in output.splitlines():
        event = json.loads(line)
        if event.get("event") == "failed":
            yield event["reason"][:200]
