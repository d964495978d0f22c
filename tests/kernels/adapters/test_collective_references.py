"""References of FlashInfer's collectives: what all ranks compute together is the sum of what they have."""

from __future__ import annotations

from typing import Any

import pytest

from precast.kernels.adapters.flashinfer.collective import gathers, gemm, mailboxes, persistent, publish, rows, sums
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

torch = pytest.importorskip("torch")

RANKS, HIDDEN = 2, 1024
CONFIG: Config = {
    "ranks": RANKS, "rank": 1, "hidden": HIDDEN, "most_rows": 8, "eps": 1e-6, "weight_bias": 0.0, "residual": True,
    "cluster": 2, "top_k": 2, "routed_scale": 2.0, "shared_expert": True, "tile": (128, 128), "dtype": "bfloat16",
}  # fmt: skip


def made(inputs: Any, **problem: int) -> dict[str, Any]:
    """Inputs on the CPU."""
    values: dict[str, Any] = inputs(CONFIG, problem, device="cpu", seed=3)
    return values


def test_what_is_published_arrives_in_the_senders_slot_of_each_mailbox() -> None:
    """Without negative zeros, at an address that counts from the begin of the whole mailbox."""
    values = made(publish.publish_inputs, rows=2, generation=1)
    results = publish.publish_reference(CONFIG, values)
    sent = results["mailboxes"].view(torch.bfloat16)
    assert (sent == values["shared_output"].view(1, 2, HIDDEN)).all()
    assert not (results["mailboxes"] == mailboxes.EMPTY).any()
    address = publish.passes(CONFIG, values)["contribution_mailbox_multicast_address"]
    assert address.skipped == (1 * RANKS + 1) * 8 * HIDDEN


def test_experts_of_other_gpus_add_nothing() -> None:
    """Each token has its own rows, with their weights, and what all tokens share."""
    values = made(publish.finalize_inputs, rows=3, generation=0)
    values["permuted_indices"][:2] = -1
    first = publish.finalize_reference(CONFIG, values)["mailboxes"][0, 0]
    assert torch.equal(first, values["shared_output"][:HIDDEN].double())


def test_two_launches_are_one_sum() -> None:
    """What ranks published is what the second launch sums, and its mailbox is empty behind it."""
    values = made(sums.norm_inputs, rows=2, generation=2)
    results = sums.norm_reference(CONFIG, values)
    total = mailboxes.numbers(values["contribution_mailbox"]).sum(0) + values["residual_source"].view(2, -1).float()
    assert torch.allclose(results["residual_output"].view(2, -1).float(), total, rtol=2.0**-7)
    squares = (results["norm_output"].view(2, -1) / values["gamma"].double()).square().mean(-1)
    assert torch.allclose(squares, torch.ones(2, dtype=torch.float64), atol=1e-3)
    assert (results["contribution_mailbox"] == mailboxes.EMPTY).all() and results["stage_state"].tolist() == [0, 2]


def test_in_two_shots_each_rank_sends_what_others_sum_and_sums_its_own() -> None:
    """Its columns arrive everywhere but at itself, where they were read already."""
    values = made(sums.shot_inputs, rows=1, generation=0)
    results = sums.shot_reference(CONFIG, values)
    half = HIDDEN // 2
    assert (results["peers"][0, :, :half] == mailboxes.sent(values["local_contribution"])[:half]).all()
    assert (results["peers"][:, :, half:] == mailboxes.EMPTY).all()
    assert (results["gathered"][0, :, half:] != mailboxes.EMPTY).all() and (
        results["gathered"][1] == mailboxes.EMPTY
    ).all()
    assert results["generations"].tolist() == [1, 1] + [0] * 14


def test_many_rows_take_turns_at_ranks() -> None:
    """Row 3 of two ranks is the second one of rank 1, and only rank 1's sums are stored."""
    part = rows.part("publish", CONFIG, Target.parse("sm_100a"))
    assert part is not None and rows.part("other", CONFIG, Target.parse("sm_100a")) is None
    values = made(part.inputs, rows=4, generation=0)
    peers = part.reference(CONFIG, values)["peers"]
    assert (peers[1, 1] == mailboxes.sent(values["shared_output"]).view(4, -1)[3]).all()
    reduced = rows.reduce_reference(CONFIG, made(rows.reduce_inputs, rows=3, generation=0))["prenorm"]
    assert (reduced[:, 1] != mailboxes.EMPTY).all() and (reduced[:, [0, 2]] == mailboxes.EMPTY).all()


def test_gathered_columns_are_whole_rows() -> None:
    """Of FP4, the rows have a mean square of one, so that no code is near an edge."""
    values = made(gathers.fp4_inputs, rows=2, generation=0)
    whole = mailboxes.numbers(values["contribution_mailbox"]).double().transpose(0, 1).flatten(1)
    assert whole.shape == (2, HIDDEN) and torch.allclose(whole.square().mean(-1), torch.ones(2).double(), atol=0.02)
    assert gathers.fp4_reference(CONFIG, values)["packed_output"].shape == (HIDDEN,)


def test_all_ranks_of_a_persistent_sum_have_the_same() -> None:
    """And each of them is passed its own part of what is shared."""
    values = made(persistent.inputs, rows=3)
    results = persistent.reference(CONFIG, values)
    assert (results["prenorm"][0] == results["prenorm"][1]).all()
    calls = persistent.passes(CONFIG, values)
    assert [call["shared_output"].data_ptr() for call in calls] == [x.data_ptr() for x in values["contributions"]]


def test_a_rank_sums_its_rows_of_each_tile() -> None:
    """The other rows of its product stay its own."""
    values = made(gemm.inputs, m=128, n=128, k=16)
    results = gemm.reference(CONFIG, values)["products"][..., 0]
    product = values["a"][..., 0].float() @ values["b"][..., 0].float().T
    assert (results[1, :64] == product[:64]).all()
    assert (results[:, 64:] == product[64:] + values["products"][0, 64:, :, 0].float()).all()
