"""Joining tuning files: laws that hold for any files, and which code and which time stays."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precast.build.measurements.join import join
from precast.build.measurements.tuning_file import TuningFile
from tests.helpers.tuning.files import CODES, DATES, files, gpu, scale_file

ONE, TWO = (("n", 8),), (("n", 16),)


@given(files())
def test_a_file_joined_with_itself_or_with_nothing_is_the_same(file: TuningFile) -> None:
    assert join([file]) == file
    assert join([file, file]) == file
    assert join([file, TuningFile()]) == file


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(files(), max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_the_files_does_not_matter(some: list[TuningFile], random: Any) -> None:
    before = join(some)
    random.shuffle(some)
    assert join(some) == before
    assert TuningFile.decode(before.encode()) == before


@pytest.mark.slow
@settings(max_examples=40)
@given(files(), files())
def test_what_one_file_says_is_said_by_both_or_newer_code_is(one: TuningFile, other: TuningFile) -> None:
    both = {(g.identity, c.identity): c for g in join([one, other]).groups for c in g.candidates}
    for file in (one, other):
        for group in file.groups:
            for candidate in group.candidates:
                found = both[group.identity, candidate.identity]
                assert (found.date, found.code) >= (candidate.date, candidate.code)
                if found.code == candidate.code:
                    assert all(found.times[sizes] <= time for sizes, time in candidate.times.items())


def test_the_lesser_time_stays_of_the_same_code() -> None:
    old = scale_file({128: {ONE: 2.0, TWO: 5.0}}, date=DATES[0])
    new = scale_file({128: {ONE: 3.0}, 256: {ONE: 1.0}}, date=DATES[1])
    joined = join([old, new])
    (group,) = joined.groups
    assert [(c.tuned["threads"], c.date, dict(c.times)) for c in group.candidates] == [
        (128, DATES[1], {ONE: 2.0, TWO: 5.0}),
        (256, DATES[1], {ONE: 1.0}),
    ]
    assert joined.gpus == (gpu(date=DATES[1]),), "as it was when it was last measured on"


def test_newer_code_drops_all_times_of_older_code() -> None:
    old = scale_file({128: {ONE: 2.0, TWO: 5.0}}, code=CODES[2], date=DATES[0])
    new = scale_file({128: {ONE: 3.0}}, code=CODES[1], date=DATES[1])
    for order in permutations([old, new]):
        (group,) = join(order).groups
        assert [(c.code, dict(c.times)) for c in group.candidates] == [(CODES[1], {ONE: 3.0})]
