"""What FlashInfer's references mean: routes to experts, and the delta rule, beside other ways to compute the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels.adapters.flashinfer import delta_rule, gdn_cases, moe_finalize, moe_gather, moe_routes

torch = pytest.importorskip("torch")


@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 30), st.sampled_from([4, 64]))
def test_every_route_stands_once_in_a_tile_of_its_expert(
    data: st.DataObject, experts: int, top_k: int, tokens: int, tile: int
) -> None:
    one = st.lists(st.integers(0, experts - 1), min_size=top_k, max_size=top_k)
    chosen = data.draw(st.lists(one, min_size=tokens, max_size=tokens))
    routes = moe_routes.sort_routes(chosen, experts, tile)
    assert len(routes.rows) == routes.tiles * tile and list(routes.experts) == sorted(routes.experts)
    held = [
        (route, routes.experts[row // tile])
        for row, route in enumerate(routes.rows)
        if row < routes.limits[row // tile]
    ]
    wanted = [(t * top_k + place, e) for t, places in enumerate(chosen) for place, e in enumerate(places)]
    assert sorted(held) == sorted(wanted)
    for number, limit in enumerate(routes.limits):
        assert number * tile < limit, "no tile is empty"


def test_two_layers_make_a_mixture_of_experts() -> None:
    """Both references, one after the other, are the sum over the experts of each token."""
    tokens, experts, hidden, inner, top_k, tile = 8, 3, 16, 64, 2, 4
    config: dict[str, Any] = {"dtype": "float32", "top_k": top_k, "tile_rows": tile}
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, hidden, generator=draw, dtype=torch.float64)
    first = torch.randn(experts, 2 * inner, hidden, generator=draw, dtype=torch.float64)
    second = torch.randn(experts, hidden, inner, generator=draw, dtype=torch.float64)
    scales = torch.rand(tokens, top_k, generator=draw, dtype=torch.float64)
    chosen = [[t % 3, (t + 1) % 3] for t in range(tokens)]
    routes = moe_routes.sort_routes(chosen, experts, tile)
    indices = moe_routes.indices(routes, "cpu")
    between = moe_gather.reference(config, {"x": x, "weights": first, **indices})["out"]
    given_ = {"inner": between, "weights": second, "out": torch.zeros(tokens, hidden), "scales": scales, **indices}
    got = moe_finalize.reference(config, given_)["out"]
    want = torch.zeros(tokens, hidden, dtype=torch.float64)
    for token, places in enumerate(chosen):
        for place, expert in enumerate(places):
            both = (first[expert] @ x[token]).view(inner // 32, 2, 32)
            up, gate = both[:, 0].flatten(), both[:, 1].flatten()
            want[token] += scales[token, place] * (second[expert] @ (up * torch.nn.functional.silu(gate)))
    assert torch.allclose(got, want)


def test_a_step_of_the_delta_rule_forgets_and_corrects() -> None:
    """With a key of length one and beta 1, the state then gives the value for that key; decay scales the rest."""
    draw = torch.Generator().manual_seed(1)
    state, v = (torch.randn(2, 3, 4, 4, generator=draw), torch.randn(2, 3, 4, generator=draw))
    k = torch.nn.functional.normalize(torch.randn(2, 3, 4, generator=draw), dim=-1)
    half, one = torch.full((2, 3, 4), 0.5), torch.ones(2, 3)
    made, read = delta_rule.step(state, k, k, v, half, one)
    assert torch.allclose(read, v, atol=1e-6)
    other = torch.nn.functional.normalize(torch.randn(2, 3, 4, generator=draw), dim=-1)
    other -= (other * k).sum(-1, keepdim=True) * k
    assert torch.allclose((made @ other.unsqueeze(-1)), (state * 0.5) @ other.unsqueeze(-1), atol=1e-6)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_prompt_is_its_tokens_one_after_another(indexed: bool) -> None:
    """The prefill of a sequence of one token is the decode step with the same decay."""
    config: dict[str, Any] = {"dtype": "bfloat16", "initial": True, "indexed": indexed}
    problem = {"first": 1, "second": 1, "query_heads": 2, "value_heads": 4}
    values = gdn_cases.prefill_inputs(config, problem, device="cpu", seed=2)
    found = gdn_cases.prefill_reference(config, values)
    q, k, v = values["q"].permute(0, 2, 1), values["k"].permute(1, 2, 0), values["v"].permute(1, 2, 0)
    decay, beta = values["decay"].view(2, 4), values["beta"].view(2, 4)
    state, read = delta_rule.step(
        values["state"].double(),
        q.double().repeat_interleave(2, dim=1) * values["scale"],
        k.double().repeat_interleave(2, dim=1),
        v.double(),
        decay.double().unsqueeze(-1).expand(-1, -1, 128),
        beta.double(),
    )
    assert torch.allclose(found["state_out"], state) and torch.allclose(found["out"].permute(1, 2, 0), read)


@pytest.mark.parametrize("indexed", [False, True])
def test_prompts_on_both_generations_are_one_definition(indexed: bool) -> None:
    """What Blackwell's arguments say is what Hopper's do; a slot that no sequence has stays as it was."""
    heads = {"query_heads": 2, "value_heads": 4}
    config: dict[str, Any] = {"dtype": "bfloat16", "initial": True, "indexed": indexed, **heads}
    values = gdn_cases.blackwell_inputs(config, {"first": 3, "second": 2}, device="cpu", seed=4)
    values["s_out"].fill_(7.0)
    found = gdn_cases.blackwell_reference(config, values)
    slots = [2, 0] if indexed else [0, 1]
    hopper = {
        "q": values["q"].permute(0, 2, 1),
        "k": values["k"].permute(2, 0, 1),
        "v": values["v"].permute(2, 0, 1),
        "decay": values["gate"].flatten(),
        "beta": values["beta"].flatten(),
        "state": values["s_in"][slots],
        "state_out": values["s_out"],
        "offsets": values["cu_seqlens"],
        "scale": values["scale"],
        **heads,
    }
    want = gdn_cases.prefill_reference(config, hopper)
    assert torch.allclose(found["o"], want["out"].permute(1, 2, 0))
    assert torch.allclose(found["s_out"][slots], want["state_out"])
    assert not indexed or bool((found["s_out"][1] == 7.0).all())
