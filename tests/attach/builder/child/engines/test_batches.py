"""Which batches an engine is tried with."""

from __future__ import annotations

import pytest

from precast.attach.builder.child.engines.batches import Batch, Limits, first_batches, representatives, steps

LIMITS = Limits(requests=64, tokens=4096, length=4096, page=32)


def test_batches_are_within_the_options() -> None:
    batches = list(first_batches(LIMITS))
    assert len(batches) == len(set(batches)) and all(batch.within(LIMITS) for batch in batches)


@pytest.mark.parametrize(
    "batch",
    [
        Batch(requests=65),
        Batch(requests=2, new=2049),
        Batch(context=4096),
        Batch(new=2, context=33),
        Batch(new=4095, decoding=2),
    ],
)
def test_what_no_option_allows(batch: Batch) -> None:
    assert not batch.within(LIMITS)


def test_decoding_first_tokens_parts_of_a_prompt_and_mixed_batches_are_all_tried() -> None:
    batches = set(first_batches(LIMITS))
    assert {Batch(requests=n, context=1) for n in range(1, 17)} <= batches
    assert {Batch(new=2), Batch(new=4095), Batch(new=64, context=32), Batch(new=2, decoding=16)} <= batches


def test_a_single_request_of_few_tokens() -> None:
    limits = Limits(requests=1, tokens=8, length=8)
    assert all(batch.requests == 1 and batch.within(limits) for batch in first_batches(limits))


def test_the_largest_number_and_those_after_a_power_of_two_are_steps() -> None:
    assert {64, 65, 100} <= set(steps(100)) and steps(3) == [1, 2, 3]


def test_every_answer_of_a_choosing_function_has_its_batch() -> None:
    def splits(batch: Batch) -> int:
        requests, _, keys = batch.numbers
        return min(132 // (2 * requests), -(-keys // 128))

    chosen = representatives(splits, LIMITS)
    assert {1, 2, 16, 22, 32} <= set(chosen)
    assert all(splits(batch) == answer and batch.within(LIMITS) for answer, batch in chosen.items())
