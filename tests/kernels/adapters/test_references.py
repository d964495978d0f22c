"""References of ops whose functions are a library's own."""

from __future__ import annotations

from typing import Any

import pytest

from precast.kernels.adapters.references import flash_attention, mamba2, mla_decode
from precast.kernels.authoring.registry import reference_for
from precast.loader.contract.format.target import Target

torch = pytest.importorskip("torch")
TARGET = Target.parse("sm_100a")


def test_a_reference_is_found_by_the_name_of_an_op() -> None:
    """Another op has none."""
    config = {"num_heads": 32, "x_token_stride": 4096, "gate_token_stride": 4096}
    part = reference_for("flashinfer.rmsnorm_sigmoid_gate", config, TARGET)
    assert part is not None and part.outputs == ("output",)
    assert reference_for("flashinfer.rmsnorm", {}, TARGET) is None
    values = part.inputs(config, {"tokens": 2}, device="cpu", seed=0)
    values["gate"].fill_(0.0)
    normed = part.reference(config, values)["output"] * 2
    assert torch.allclose(normed.square().mean(-1), torch.ones(2, 32).double(), atol=1e-4)


def test_pages_hold_the_keys_in_the_order_of_the_table() -> None:
    """With one key, the result is its latent."""
    config: dict[str, Any] = {
        "num_heads": 4, "seq_len_q": 1, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "page_size": 64,
        "torch_dtype": "bfloat16", "torch_out_dtype": "bfloat16",
    }  # fmt: skip
    values = mla_decode.inputs(config, {"batch": 1, "keys": 1, "splits": 1}, device="cpu", seed=1)
    results = mla_decode.reference(config, values)
    latent = values["c_latent"][values["page_table"][0, 0].long(), 0].double()
    assert values["page_table"].shape == (1, 2) and torch.allclose(results["o"][0, 0, 2], latent)


def test_a_latent_counts_in_scores_and_in_sums() -> None:
    """The second part of a query meets the values."""
    call = dict.fromkeys(("learnable_sink", "window_size_left", "block_sparse_tensors"))
    recorded = {
        **call, "causal": False, "num_splits": 1, "return_lse": False, "window_size_right": None, "score_mod": None,
        "q": ("$tensor", "bfloat16", (2, 8, 4, 16)), "k": ("$tensor", "bfloat16", (2, 8, 1, 16)),
        "v": ("$tensor", "bfloat16", (2, 8, 1, 32)), "qv": ("$tensor", "bfloat16", (2, 8, 4, 32)),
    }  # fmt: skip
    config: dict[str, Any] = {"call": tuple(recorded.items())}
    values = flash_attention.inputs(config, {"queries": 2, "keys": 5}, device="cpu", seed=1)
    values["mQ"].zero_()
    values["mQv"].copy_(1000 * values["mV"][:, 3:4])
    got = flash_attention.reference(config, values)["mO"]
    assert torch.allclose(got, values["mV"][:, 3:4].double().expand(got.shape), atol=1e-6)


@pytest.mark.parametrize("varlen", [False, True])
def test_a_sequence_of_a_recurrence_begins_with_its_own_state(varlen: bool) -> None:
    """The first token of each reads the initial state, decayed once."""
    config: dict[str, Any] = {
        "chunk_size": 128, "headdim": 8, "dstate": 16, "has_varlen": varlen, "has_initial_states": True,
    }  # fmt: skip
    values = mamba2.inputs(config, {"lengths": 1} if varlen else {"chunks": 1}, device="cpu", seed=1)
    values["delta"].zero_()
    values["cumsum_delta"].zero_()
    values["d"].zero_()
    results = mamba2.reference(config, values)
    assert torch.allclose(results["fstate"], values["init_states"].double())
    if varlen:
        assert values["chunk_indices"].tolist() == [0, 1, 1, 2] and values["chunk_offsets"].tolist() == [0, 0, 72, 0]
        assert values["seq_chunk_cumsum"].tolist() == [0, 2, 4]
