"""Rounds of builds whose processes are struck."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.helpers.builds import tree
from tests.helpers.kills.blow import Blow, resume
from tests.helpers.kills.processes import BUILDER, DESCRIBER, MODULE, TOOL, VARIANT, WORKER, running
from tests.helpers.kills.site import LIMIT, Site
from tests.helpers.kills.supervised import Ended, Supervised
from tests.helpers.kills.tally import Tally

KINDS = (BUILDER, WORKER, MODULE, VARIANT, DESCRIBER, TOOL)
ANY = "any"
"""Each time one of those whose end a build survives, so that a few blows reach all of them."""
_SURVIVED = (WORKER, MODULE, VARIANT, TOOL)
_ENDS_QUICKLY = 15.0  # seconds, for a build that is to end
_GROUP = {BUILDER: 3, DESCRIBER: 4}  # so many builds are struck before one is left in peace
_DELAYS = {TOOL: 0.005, DESCRIBER: 2.0}  # seconds, at most, of a process's life before it is struck
_MOST_BLOWS = {BUILDER: 1, DESCRIBER: 1}
_INTERRUPTED, _FAILED, _WRONG = 130, 1, 2


def strike_builds(kind: str, number: int, folder: Path, seed: int) -> Tally:
    """Strike processes of this kind so many times."""
    site, chances, tally = Site(folder), random.Random(f"{kind} {seed}"), Tally(kind)
    while tally.number < number and len(tally.broken) < number:
        for number_in_group in range(_GROUP.get(kind, 2)):
            if number_in_group == 0 or kind == DESCRIBER:  # kernels that were described once are not described again
                site.undo(chances, described=kind != DESCRIBER)
            tally.broken += [f"round {tally.number}: {text}" for text in _one_build(site, kind, chances, tally)]
        tally.broken += [f"round {tally.number}: {text}" for text in site.next_build()]
        print(f"{kind}: {tally.number} of {number}", file=sys.stderr, flush=True)
    return tally


def _one_build(site: Site, kind: str, chances: random.Random, tally: Tally) -> Iterator[str]:
    """Run a build and strike some of its processes; what then does not hold."""
    build = site.build(chances.choice((1, 1, 2)))
    blows: list[Blow] = []
    most = chances.randint(1, _MOST_BLOWS.get(kind, 6))
    for _ in range(most):
        moment = build.seconds + (chances.random() * site.whole_build / most if kind != DESCRIBER else 0)
        one = chances.choice(_SURVIVED) if kind == ANY else kind
        blow = chances.choice(list(Blow))
        if _strike_one(build, one, moment, blow, chances):
            blows.append(blow)
            tally.blows[blow.value] += 1
    struck = build.seconds
    if kind == BUILDER and blows == [Blow.STOP]:
        yield from _another_build(site, build)
    ended = build.end(max(LIMIT, build.seconds + LIMIT / 2))
    tally.longest = max(tally.longest, ended.seconds)
    tally.ends[str(ended.code)] += bool(blows)
    yield from _wrong_end(kind, blows, ended, ended.seconds - struck, tally)
    yield from site.problems()


def _strike_one(build: Supervised, kind: str, moment: float, blow: Blow, chances: random.Random) -> bool:
    """Strike a process of this kind, soon after one is there from this moment on; a linker is gone in 20 ms."""
    while build.until(partial(running, build.pid, kind), moment):
        time.sleep(chances.random() * _DELAYS.get(kind, 0.03))
        pids = running(build.pid, kind)
        if pids and blow.strike(chances.choice(pids), chances):
            return True
    return False


def _another_build(site: Site, stopped: Supervised) -> Iterator[str]:
    """While a build is stopped, another one does the same; then the first continues."""
    other = site.build().end(LIMIT, besides=(stopped.pid,))
    if other.code != 0 or tree(site.cache) != site.new:
        yield f"beside a stopped build another ends with {other.code}: {other.errors[-500:]}"
    resume(stopped.pid)


def _wrong_end(kind: str, blows: list[Blow], ended: Ended, since: float, tally: Tally) -> Iterator[str]:
    """Whether a build ended as it should, after these blows."""
    what = f"{', '.join(blow.value for blow in blows) or 'no blow'}: exit status {ended.code}"
    yield from (f"{what}: left running: {line}" for line in ended.orphans)
    if ended.code is None:
        yield f"{what}: no end in {ended.seconds:.0f} s: {ended.errors[-500:]}"
        return
    if "Traceback (most recent call last)" in ended.errors and ended.code not in (_INTERRUPTED, -15):
        yield f"{what}: {ended.errors[-1500:]}"
    if kind == BUILDER:
        expected = {Blow.KILL: (-9, 0), Blow.TERMINATE: (_INTERRUPTED, -15, 0)}.get(
            blows[0] if blows else Blow.STOP, (0,)
        )
        if ended.code not in expected or (blows == [Blow.TERMINATE] and since > _ENDS_QUICKLY):
            yield f"{what}, {since:.0f} s later: {ended.errors[-500:]}"
        return
    harmless = all(blow is Blow.PAUSE for blow in blows)
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
