"""Which candidates no measured problem needs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.measurements.tuning_file import TuningFile
from precast.build.plan.manifest import parse_manifest
from precast.loader.resolve.cache import Cache
from precast.measure.tuning.contest import contests
from precast.measure.tuning.prune import cover, exclusions, near_best, prune
from tests.helpers.caches import Native, demo
from tests.helpers.tuning.files import scale_file

ONE, TWO = (("n", 8),), (("n", 16),)
names = st.sampled_from([b"a", b"b", b"c", b"d"])
tables = st.dictionaries(st.integers(0, 5), st.dictionaries(names, st.floats(1, 2), min_size=1), max_size=5)


def served(times: dict[int, dict[bytes, float]], chosen: set[bytes], within: float) -> bool:
    return all(
        any(name in chosen and time <= min(row.values()) * (1 + within) for name, time in row.items())
        for row in times.values()
    )


@given(tables, st.sampled_from([0.0, 0.02, 0.5]), st.sets(names))
def test_a_cover_serves_every_problem_and_needs_each_that_it_adds(
    times: dict[int, dict[bytes, float]], within: float, first: set[bytes]
) -> None:
    chosen = cover(times, within, first)
    assert first <= chosen and served(times, chosen, within)
    assert chosen - first <= near_best(times, within)
    assert len(chosen - first) <= len(times)
    assert cover(dict(reversed(times.items())), within, first) == chosen, "no order decides"


@given(tables, st.sampled_from([0.0, 0.02, 0.5]))
def test_what_is_dropped_is_needed_nowhere(times: dict[int, dict[bytes, float]], within: float) -> None:
    kept = near_best(times, within)
    for row in times.values():
        for name, time in row.items():
            assert (name in kept) or time > min(row.values()) * (1 + within)
    if times:
        assert served(times, kept, within)


def test_the_greedy_cover_is_smaller_where_one_serves_several() -> None:
    times: dict[object, dict[bytes, float]] = {
        1: {b"a": 1.0, b"z": 1.01},
        2: {b"b": 1.0, b"z": 1.01},
        3: {b"c": 1.0, b"z": 1.01},
    }
    assert near_best(times, 0.02) == {b"a", b"b", b"c", b"z"}
    assert cover(times, 0.02) == {b"z"}
    assert cover(times, 0.001) == {b"a", b"b", b"c"}
    for size in range(1, 3):  # and no smaller one does
        assert not any(
            all(set(s) & {n for n, t in row.items() if t <= 1.001} for row in times.values())
            for s in combinations([b"a", b"b", b"c", b"z"], size)
        )


MANIFEST = b"""
version: 1
name: demo
targets: %s
kernels:
  - kernel: scale
    config: {dtype: [bfloat16, float16]}
    tuned: {threads: [256, 128]}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    where = tmp_path_factory.mktemp("cache")
    return Cache(demo(Native(where)).write(where / "demo"))


def test_the_lines_leave_out_what_no_target_of_an_entry_needs(cache: Cache) -> None:
    """threads=256 is the author's first choice, and stays, whatever it takes."""
    fast = scale_file({128: {ONE: 2.0}, 256: {ONE: 1.0}})
    for targets, lines in ((b"[sm_90a]", ["  - {dtype: bfloat16, threads: 128}"]), (b"[sm_90a, sm_100a]", [])):
        manifest = parse_manifest(MANIFEST % targets, Path("m.yaml"))
        pruned = prune(contests(cache, [manifest], lambda a: ""), fast, within=0.02, smallest=False)
        assert sum(len(one.dropped) for one in pruned) == 1
        assert sum(one.stored for one in pruned) > 0
        assert exclusions([manifest], cache, pruned) == (["# m.yaml:6:5", "exclude:", *lines] if lines else [])


@pytest.mark.parametrize("smallest", [False, True])
def test_the_first_choice_and_what_was_not_measured_stay(cache: Cache, smallest: bool) -> None:
    manifest = parse_manifest(MANIFEST % b"[sm_90a]", Path("m.yaml"))
    found = contests(cache, [manifest], lambda a: "")
    for file in (TuningFile(), scale_file({256: {ONE: 9.0}}), scale_file({128: {ONE: 1.0}, 256: {ONE: 9.0}})):
        pruned = prune(found, file, within=0.02, smallest=smallest)
        assert not any(one.dropped for one in pruned)
        assert exclusions([manifest], cache, pruned) == []


INCLUDING = b"""
version: 1
name: demo
targets: [sm_90a]
kernels:
  - kernel: scale
    config: {dtype: bfloat16}
    tuned: {threads: %s}
    include:
      - {threads: %s}
"""


@pytest.mark.parametrize(
    ("plain", "included", "lines"),
    [
        (b"[256]", b"128", ["# and of 'include', remove:", "#  - {threads: 128}"]),
        (b"[128]", b"256", ["exclude:", "  - {threads: 128}"]),
    ],
)
def test_rows_of_include_are_named_and_never_excluded(
    cache: Cache, plain: bytes, included: bytes, lines: list[str]
) -> None:
    """``exclude`` does not touch them; and a matrix of one row is excluded by what is written of it."""
    manifest = parse_manifest(INCLUDING % (plain, included), Path("m.yaml"))
    fast = scale_file({128: {ONE: 2.0}, 256: {ONE: 1.0}})
    pruned = prune(contests(cache, [manifest], lambda a: ""), fast, within=0.02, smallest=False)
    assert exclusions([manifest], cache, pruned) == ["# m.yaml:6:5", *lines]
    if lines[0] == "exclude:":
        text = INCLUDING % (plain, included) + b"    exclude:\n    " + lines[1].encode() + b"\n"
        left = contests(cache, [parse_manifest(text, Path("m.yaml"))], lambda a: "")
        assert [one.tuned for contest in left for one in contest.contestants] == [{"threads": 256}]


def test_an_entry_that_nothing_needs_is_named(cache: Cache) -> None:
    text = INCLUDING.replace(b"    include:\n      - {threads: %s}\n", b"") % b"[256]"
    text += text[text.index(b"  - kernel") :].replace(b"256", b"128")
    manifest = parse_manifest(text, Path("m.yaml"))
    fast = scale_file({128: {ONE: 2.0}, 256: {ONE: 1.0}})
    pruned = prune(contests(cache, [manifest], lambda a: ""), fast, within=0.02, smallest=False)
    assert exclusions([manifest], cache, pruned) == ["# m.yaml:9:5", "# nothing needs this entry: remove it"]
