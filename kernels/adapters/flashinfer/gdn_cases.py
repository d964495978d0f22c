"""Cases of the gated delta rule: inputs, what is right, and what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.flashinfer import delta_rule
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format.config import Config

_DIM = 128
_SCALE = _DIM**-0.5
_TENSOR_MAP = 128  # bytes
_TENSOR_MAPS_BLACKWELL = 4  # of a multiprocessor; elsewhere one


def decode_problems(config: Config) -> Sequence[Problem]:
    """One sequence, a few, and a batch that servers run; the states of a pool stand in any order."""
    return [{"batch": batch} for batch in (1, 3, 33, 256)]


def prefill_problems(config: Config) -> Sequence[Problem]:
    """One token, chunks of 64 and one more, several lengths; at last the heads of Qwen3-Next."""
    small = [{"first": n, "second": m, "query_heads": 2, "value_heads": 4} for n, m in ((1, 2), (64, 65), (130, 7))]
    return [*small, {"first": 700, "second": 1, "query_heads": 16, "value_heads": 32}]


def decode_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """A batch whose states stand in a pool, the last sequence of a longer batch in none."""
    import torch

    batch, h, hv = problem["batch"], configs.integer(config, "query_heads"), configs.integer(config, "value_heads")
    draw = delta_rule.Draw(device, seed)
    order = torch.randperm(batch + 2, generator=torch.Generator().manual_seed(seed))[:batch].to(torch.int32)
    if batch > 2:
        order[-1] = -1
    order = order.to(device)
    return {
        "state": draw(batch + 2, hv, _DIM, _DIM, dtype="float32"),
        "a_log": draw(hv, dtype="float32"),
        "a": draw(batch, 1, hv),
        "dt_bias": draw(hv, dtype="float32"),
        "q": draw(batch, 1, h, _DIM),
        "k": draw(batch, 1, h, _DIM),
        "v": draw(batch, 1, hv, _DIM),
        "b": draw(batch, 1, hv),
        "out": tensors.empty((batch, 1, hv, _DIM), "bfloat16", device=device),
        "read": order,
        "write": order.clone(),
        "offsets": torch.zeros(batch + 1, dtype=torch.int32, device=device),
    }


def prefill_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Two sequences behind one another, keys and queries of length one."""
    import torch

    lengths, dtype = (problem["first"], problem["second"]), str(config["dtype"])
    h, hv, tokens = problem["query_heads"], problem["value_heads"], sum(lengths)
    draw = delta_rule.Draw(device, seed)
    slots = torch.arange(2, device=device)
    q, k = (torch.nn.functional.normalize(draw(tokens, h, _DIM, dtype="float32"), dim=-1) for _ in range(2))
    state = draw(2, hv, _DIM, _DIM, dtype="float32") if config["initial"] else None
    processors = tensors.multiprocessors(device)
    return {
        "q": q.to(to_torch(dtype)).permute(0, 2, 1),
        "k": k.to(to_torch(dtype)).permute(2, 0, 1),
        "v": draw(tokens, hv, _DIM, dtype=dtype).permute(2, 0, 1),
        "out": tensors.empty((tokens, hv, _DIM), dtype, device=device).permute(2, 0, 1),
        "decay": torch.rand(tokens * hv, generator=draw.generator, device=device) * 0.2 + 0.8,
        "beta": torch.rand(tokens * hv, generator=draw.generator, device=device),
        "state_out": tensors.empty((2, hv, _DIM, _DIM), "float32", device=device),
        "state": state,
        "slots": slots.to(torch.int64) if config["indexed"] else None,
        "checkpoints": None,
        "checkpoint_starts": None,
        "tensor_maps": torch.zeros(processors * _TENSOR_MAP, dtype=torch.uint8, device=device),
        "offsets": torch.tensor([0, lengths[0], tokens], dtype=torch.int64, device=device),
        "scale": 1.0,
        "query_heads": h,
        "key_heads": h,
        "value_heads": hv,
        "state_heads": max(h, hv),
        "sequences": 2,
        "all_checkpoints": 1,
        "checkpoint_tokens": 0,
        "blocks": 2 * max(h, hv),
    }


def decode_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64. What has no state has an output of zeros."""
    import torch

    group = configs.integer(config, "value_heads") // configs.integer(config, "query_heads")
    q, k, v, a, b = (inputs[name].double()[:, 0] for name in ("q", "k", "v", "a", "b"))
    q, k = (delta_rule.unit(x, bool(config["qk_norm"])).repeat_interleave(group, dim=1) for x in (q, k))
    rate = -inputs["a_log"].double().exp() * torch.nn.functional.softplus(a + inputs["dt_bias"].double())
    held = inputs["read"] >= 0
    slots = inputs["read"][held].long()
    decay = rate.exp()[held].unsqueeze(-1).expand(-1, -1, _DIM)
    pool = inputs["state"].double()
    new_state, read = delta_rule.step(
        pool[slots], q[held] * float(str(config["scale"])), k[held], v[held], decay, b.sigmoid()[held]
    )
    out = torch.zeros(inputs["out"].shape, dtype=torch.float64, device=pool.device)
    out[held, 0] = read
    return {"out": out, "state": pool.index_copy(0, slots, new_state)}


def prefill_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64, one token after another."""
    import torch

    hv = inputs["value_heads"]
    group = hv // inputs["query_heads"]
    q = inputs["q"].double().permute(0, 2, 1).repeat_interleave(group, dim=1) * inputs["scale"]
    k = inputs["k"].double().permute(1, 2, 0).repeat_interleave(group, dim=1)
    v = inputs["v"].double().permute(1, 2, 0)
    decay, beta = (inputs[name].double().view(-1, hv) for name in ("decay", "beta"))
    states = torch.zeros_like(inputs["state_out"].double()) if inputs["state"] is None else inputs["state"].double()
    out, states = in_sequence(q, k, v, decay, beta, states, inputs["offsets"].tolist())
    return {"out": out.permute(2, 0, 1), "state_out": states}


def in_sequence(q: Any, k: Any, v: Any, decay: Any, beta: Any, states: Any, offsets: Sequence[int]) -> tuple[Any, Any]:
    """What sequences that stand behind one another read, and their last states, one token after another."""
    import torch

    out, states = torch.zeros_like(v), states.clone()
    for number, (begin, end) in enumerate(itertools.pairwise(offsets)):
        state = states[number]
        for token in range(begin, end):
            rate = decay[token].unsqueeze(-1).expand(-1, _DIM)
            state, out[token] = delta_rule.step(state, q[token], k[token], v[token], rate, beta[token])
        states[number] = state
    return out, states


def prefill_tolerance(config: Config) -> Tolerance:
    """A chunk takes four products of matrices. Their operands are rounded to the dtype; sums stay below four."""
    half = 2.0**-8 if config["dtype"] == "bfloat16" else 2.0**-11
    return Tolerance(rtol=2 * half, atol=4 * half)


def decode_cost(config: Config, problem: Problem) -> Cost:
    """Each state is read and written once; six operations for each of its elements.

    >>> decode_cost({"query_heads": 1, "value_heads": 1}, {"batch": 1}).bytes
    132100
    """
    h, hv, batch = configs.integer(config, "query_heads"), configs.integer(config, "value_heads"), problem["batch"]
    states = batch * hv * _DIM * _DIM
    return Cost(6 * states, 2 * 4 * states + batch * (2 * (2 * h * _DIM + 2 * hv * _DIM + 2 * hv)))


def prefill_cost(config: Config, problem: Problem) -> Cost:
    """Six operations for each element of the state and each token, as in the definition."""
    h, hv, tokens = problem["query_heads"], problem["value_heads"], problem["first"] + problem["second"]
    states = 2 * 2 * hv * _DIM * _DIM * 4
    return Cost(6 * tokens * hv * _DIM * _DIM, 2 * tokens * (2 * h + 2 * hv) * _DIM + 8 * tokens * hv + states)


def blackwell_problems(config: Config) -> Sequence[Problem]:
    """One token, a chunk of 64 and one more, several chunks; a longer prompt."""
    return [{"first": n, "second": m} for n, m in ((1, 2), (64, 65), (130, 7), (700, 1))]


def blackwell_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Two sequences behind one another, keys and queries of length one; in a pool, the states stand in any order."""
    import torch

    lengths, dtype = (problem["first"], problem["second"]), str(config["dtype"])
    h, hv = configs.integer(config, "query_heads"), configs.integer(config, "value_heads")
    heads, tokens, slots = max(h, hv), sum(lengths), 3 if config["indexed"] else 2
    draw = delta_rule.Draw(device, seed)
    q, k = (torch.nn.functional.normalize(draw(tokens, h, _DIM, dtype="float32"), dim=-1) for _ in range(2))
    return {
        "q": q.to(to_torch(dtype)),
        "k": k.to(to_torch(dtype)),
        "v": draw(tokens, hv, _DIM, dtype=dtype),
        "gate": torch.rand(tokens, heads, generator=draw.generator, device=device) * 0.2 + 0.8,
        "beta": torch.rand(tokens, heads, generator=draw.generator, device=device),
        "o": tensors.empty((tokens, heads, _DIM), dtype, device=device),
        "cu_seqlens": torch.tensor([0, lengths[0], tokens], dtype=torch.int32, device=device),
        "s_in": draw(slots, heads, _DIM, _DIM, dtype="float32") if config["initial"] else None,
        "s_out": torch.zeros(slots, heads, _DIM, _DIM, device=device),
        "s_indices": torch.tensor([2, 0], dtype=torch.int32, device=device) if config["indexed"] else None,
        "s_checkpoints": None,
        "cu_checkpoints": None,
        "checkpoint_every_n_tokens": 0,
        "scale": _SCALE,
        "tensormap_workspace": torch.zeros(
            tensors.multiprocessors(device) * _TENSOR_MAPS_BLACKWELL * _TENSOR_MAP, dtype=torch.int8, device=device
        ),
    }


def blackwell_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64, one token after another. Slots that no sequence has are as they were."""
    import torch

    h, hv = configs.integer(config, "query_heads"), configs.integer(config, "value_heads")
    q, k = (inputs[name].double().repeat_interleave(hv // h, dim=1) for name in ("q", "k"))
    v, decay, beta = (inputs[name].double() for name in ("v", "gate", "beta"))
    last = inputs["s_out"].double()
    slots = torch.arange(2) if inputs["s_indices"] is None else inputs["s_indices"].long()
    slots = slots.to(last.device)
    first = torch.zeros_like(last[slots]) if inputs["s_in"] is None else inputs["s_in"].double()[slots]
    out, states = in_sequence(q * inputs["scale"], k, v, decay, beta, first, inputs["cu_seqlens"].tolist())
    return {"o": out, "s_out": last.index_copy(0, slots, states)}


def blackwell_cost(config: Config, problem: Problem) -> Cost:
    """That of ``gdn_prefill`` with the heads of the config."""
    return prefill_cost(
        config, {**problem, **{name: configs.integer(config, name) for name in ("query_heads", "value_heads")}}
    )
