"""Ops of thousands of artifacts: a request judges those of its config, an explanation the nearest, up to a limit."""

from __future__ import annotations

import pytest

from precast.loader.contract.format.config import Key
from precast.loader.errors import CacheError
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.choose import MOST_OF_ONE_CONFIG, choose
from precast.loader.resolve.judge import MOST_JUDGED, resolve
from precast.loader.resolve.resolution import render
from tests.helpers.caches import artifact
from tests.helpers.resolutions import BLOB, HERE, scale, source

KEYS = (Key(name="n", type="int"), Key(name="m", type="int"))
TWO = source(*(artifact(BLOB, {"n": n, "m": n % 2}) for n in range(2 * MOST_JUDGED)), keys=KEYS)
MANY = [scale(threads=n) for n in range(MOST_OF_ONE_CONFIG + 1)]


def asked(**config: object) -> Request:
    return Request(op="scale", config=config)


def test_an_explanation_judges_the_nearest() -> None:
    resolution = resolve(asked(n=1501, m=0), HERE, [TWO])
    assert len(resolution.rejected) == MOST_JUDGED and resolution.unjudged == MOST_JUDGED
    assert {r.candidate.config["n"] for r in resolution.rejected[:2]} == {1500, 1502}
    assert all(len(r.differing) == 1 for r in resolution.rejected)
    assert f"  and {MOST_JUDGED} more, which differ more" in render(resolution).splitlines()


def test_what_serves_is_always_judged() -> None:
    """All artifacts of the config are, though they are more than the nearest ones of an explanation."""
    many = source(*MANY[:-1], *(scale(dtype="float16", threads=n) for n in range(10)))
    resolution = resolve(asked(dtype="bf16"), HERE, [many])
    assert len(resolution.accepted) == MOST_OF_ONE_CONFIG and resolution.unjudged == 10
    assert choose(asked(dtype="bf16"), HERE, [many]) == resolution.chosen


def test_too_many_artifacts_of_one_config_are_an_error_of_their_cache() -> None:
    crowded, other = source(*MANY), source(scale(threads=7), precedence=1)
    for decide in (choose, resolve):
        with pytest.raises(CacheError, match="4097 artifacts of one config, more than the 4096"):
            decide(asked(dtype="bf16"), HERE, [crowded])
    chosen = choose(asked(dtype="bf16"), HERE, [crowded, other])
    assert chosen is not None and chosen.cache == "c1"
    resolution = resolve(asked(dtype="bf16"), HERE, [crowded, other])
    assert resolution.chosen == chosen and "'c0' was left out: op 'scale' has 4097" in resolution.notes[0]
