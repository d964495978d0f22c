"""The kernel of flashinfer-gdn-prefill.md: FlashInfer's gated delta rule over a prompt, for Blackwell."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any

from precast.kernels.adapters.first_launch import compiled_until_launch
from precast.kernels.authoring.declare import GRID, Problem, Tolerance, kernel
from precast.loader.contract.format.config import Config

_DIM, _MAPS = 128, 148 * 4 * 128  # of a head; bytes of the library's workspace
_SCALE = _DIM**-0.5


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Sequences behind one another, keys and queries of length one, decays near one."""
    import torch

    lengths = [problem["first"], problem["second"]]
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(sum(lengths), 1, _DIM, generator=draw) for _ in range(3))
    q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    return {
        "q": q.bfloat16(),
        "k": k.bfloat16(),
        "v": v.bfloat16(),
        "gate": torch.rand(sum(lengths), 1, generator=draw) * 0.2 + 0.8,
        "beta": torch.rand(sum(lengths), 1, generator=draw),
        "o": torch.zeros(sum(lengths), 1, _DIM).bfloat16(),
        "cu_seqlens": torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32),
        "s_in": None,
        "s_out": torch.zeros(2, 1, _DIM, _DIM),
        "s_indices": None,
        "s_checkpoints": None,
        "cu_checkpoints": None,
        "checkpoint_every_n_tokens": 0,
        "scale": _SCALE,
        "tensormap_workspace": torch.zeros(_MAPS, dtype=torch.int8),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64, one token after another."""
    import torch

    q, k, v, gate, beta = (values[name].double()[:, 0] for name in ("q", "k", "v", "gate", "beta"))
    out, states = torch.zeros_like(v), torch.zeros_like(values["s_out"]).double()
    for number, (begin, end) in enumerate(itertools.pairwise(values["cu_seqlens"].tolist())):
        state = states[number, 0]
        for token in range(begin, end):
            state = state * gate[token]
            state = state + beta[token] * torch.outer(v[token] - state @ k[token], k[token])
            out[token] = state @ q[token] * values["scale"]
        states[number, 0] = state
    return {"o": out.unsqueeze(1), "s_out": states}


@kernel(
    op="upstream.gdn_prefill",
    targets=["sm_100a"],
    problems=lambda config: [{"first": 1, "second": 2}],
    inputs=inputs,
    outputs=["o", "s_out"],
    in_place=["s_out"],
    workspace=["tensormap_workspace"],
    reference=reference,
    tolerance=lambda config: Tolerance(rtol=2.0**-7, atol=2.0**-6),
    special_values=[],
    speed_only=GRID,
)
def gdn_prefill() -> Any:
    """One head, bfloat16, no initial state."""
    from flashinfer.gdn_kernels.blackwell.gdn_prefill import chunk_gated_delta_rule_sm100

    def launch() -> Any:
        import torch

        def of(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.empty(shape, dtype=dtype, device="cuda")

        given, gates, states = of(256, 1, _DIM, dtype=torch.bfloat16), of(256, 1), of(3, 1, _DIM, _DIM)
        offsets = of(4, dtype=torch.int32)
        return chunk_gated_delta_rule_sm100(given, given, given, gates, gates, given, offsets, None, states, _SCALE)

    os.environ["FLASHINFER_CUTE_DSL_DISABLE_CACHE"] = "1"
    return compiled_until_launch(launch)
