"""FlashInfer's gated delta rule: ``gdn_decode``, ``gdn_prefill`` and ``gdn_prefill_blackwell`` (Qwen3-Next).

The decay is one number for a head: see ``precast.kernels.adapters.flashinfer.delta_rule``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.first_launch import compiled_until_launch
from precast.kernels.adapters.flashinfer import delta_rule, library
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_torch
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DECODE = "flashinfer.gdn_kernels.gdn_decode_pretranspose"
_PREFILL = "flashinfer.gdn_kernels.delta_rule_dsl.delta_rule_sm90"
_PREFILL_BLACKWELL = "flashinfer.gdn_kernels.blackwell.gdn_prefill"
_DIM = 128
_SCALE = _DIM**-0.5
_TENSOR_MAP = 128  # bytes for each multiprocessor


def heads_refusal(config: Config) -> str | None:
    """Why a config cannot be built, or None.

    >>> heads_refusal({"query_heads": 3, "value_heads": 4})
    'value_heads is 4, which 3 does not divide: give each query head as many value heads'
    """
    queries, values = configs.integer(config, "query_heads"), configs.integer(config, "value_heads")
    if queries < 1 or values < 1:
        return f"query_heads is {queries} and value_heads {values}: use numbers from 1"
    if values % queries:
        return f"value_heads is {values}, which {queries} does not divide: give each query head as many value heads"
    return None


def supports_decode(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return library.FLASHINFER.obstacle() or heads_refusal(config)


def supports_prefill(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = library.FLASHINFER.obstacle()
    if reason is None and config["dtype"] not in library.HALVES:
        reason = f"dtype {config['dtype']!r} is not supported: use one of {', '.join(library.HALVES)}"
    return reason


def supports_prefill_blackwell(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return supports_prefill(config, target) or heads_refusal(config)


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
    out = torch.zeros_like(v)
    states = torch.zeros_like(inputs["state_out"].double()) if inputs["state"] is None else inputs["state"].double()
    states, offsets = states.clone(), inputs["offsets"].tolist()
    for number, (begin, end) in enumerate(itertools.pairwise(offsets)):
        state = states[number]
        for token in range(begin, end):
            rate = decay[token].unsqueeze(-1).expand(-1, _DIM)
            state, out[token] = delta_rule.step(state, q[token], k[token], v[token], rate, beta[token])
        states[number] = state
    return {"out": out.permute(2, 0, 1), "state_out": states}


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


@kernel(
    op="flashinfer.gdn_decode",
    imports=[_DECODE],
    targets=["sm_90+"],
    supports=supports_decode,
    problems=decode_problems,
    inputs=decode_inputs,
    outputs=["out", "state"],
    in_place=["state"],
    special_values=["zero"],
    reference=decode_reference,
    tolerance=delta_rule.tolerance,
    cost=decode_cost,
    arguments={
        "h0_source": "state", "A_log": "a_log", "o": "out", "h0_indices": "read", "h0_out_indices": "write",
        "cu_seqlens": "offsets",
    },
)  # fmt: skip
def gdn_decode(query_heads: int, value_heads: int, qk_norm: bool = True, scale: float = _SCALE) -> Any:
    """``gdn_decode(state, a_log, a, dt_bias, q, k, v, b, out, read, write, offsets, stream)``: one token of the gated
    delta rule, for each sequence of a batch.

    ``q`` and ``k`` are ``[batch, 1, query_heads, 128]``, ``v`` and ``out`` ``[batch, 1, value_heads, 128]``, ``a`` and
    ``b`` ``[batch, 1, value_heads]``, of bfloat16; ``a_log`` and ``dt_bias`` are ``[value_heads]`` of float32. The
    decay is ``exp(-exp(a_log) * softplus(a + dt_bias))``, ``beta`` the sigmoid of ``b``. ``state`` is a pool ``[slots,
    value_heads, 128, 128]`` of float32, ``[value, key]``; ``read`` and ``write`` are the slots of the sequences,
    int32: one below zero gives zeros, and changes no state. With ``qk_norm`` queries and keys are scaled to length
    one. ``offsets`` is int32 ``[batch + 1]``, and not read. ``stream`` is the handle of the stream.
    """
    run = library.FLASHINFER.module(_DECODE).run_pretranspose_decode
    library.without_disk_cache()

    def launch() -> Any:
        import torch

        batch = 4

        def of(*shape: int, dtype: Any = torch.bfloat16) -> Any:
            return torch.empty(shape, dtype=dtype, device="cuda")

        heads = (batch, 1, value_heads)
        slots = of(batch, dtype=torch.int32)
        return run(
            of(batch, value_heads, _DIM, _DIM, dtype=torch.float32), of(value_heads, dtype=torch.float32), of(*heads),
            of(value_heads, dtype=torch.float32), of(batch, 1, query_heads, _DIM), of(batch, 1, query_heads, _DIM),
            of(*heads, _DIM), of(*heads), of(*heads, _DIM), batch, 1, query_heads, value_heads, _DIM, _DIM, scale,
            qk_norm, use_pool_indexing=True, initial_state_indices=slots,
        )  # fmt: skip

    return compiled_until_launch(launch)


@kernel(
    op="flashinfer.gdn_prefill",
    imports=[_PREFILL],
    targets=["sm_90a"],
    supports=supports_prefill,
    problems=prefill_problems,
    inputs=prefill_inputs,
    outputs=["out", "state_out"],
    workspace=["tensor_maps"],
    special_values=[],  # a decay of zero has no logarithm
    reference=prefill_reference,
    tolerance=prefill_tolerance,
    cost=prefill_cost,
    arguments={
        "g_q": "q", "g_k": "k", "g_v": "v", "g_o": "out", "g_alpha": "decay", "g_beta": "beta", "g_state": "state_out",
        "g_init_state": "state", "g_state_indices": "slots", "g_state_checkpoints": "checkpoints",
        "checkpoint_cu_starts": "checkpoint_starts", "g_tensormaps": "tensor_maps", "cu_seqlens": "offsets",
        "num_q_heads": "query_heads", "num_k_heads": "key_heads", "num_v_heads": "value_heads",
        "num_sab_heads": "state_heads", "num_seqs": "sequences", "total_checkpoints": "all_checkpoints",
        "checkpoint_every_n_tokens": "checkpoint_tokens", "grid_x": "blocks",
    },
)  # fmt: skip
def gdn_prefill(dtype: DType, initial: bool = False, indexed: bool = False) -> Any:
    """``gdn_prefill(q, k, v, out, decay, beta, state_out, state, slots, checkpoints, checkpoint_starts, tensor_maps,
    offsets, scale, query_heads, key_heads, value_heads, state_heads, sequences, all_checkpoints, checkpoint_tokens,
    blocks, stream)``: the gated delta rule for sequences that stand behind one another.

    For contiguous ``[tokens, heads, 128]``, pass ``q.permute(0, 2, 1)``, and ``permute(2, 0, 1)`` of ``k``, ``v``
    and ``out``. ``decay`` and ``beta`` are flat ``[tokens * state_heads]`` of float32, between zero and one, where
    ``state_heads`` is the larger number of query and value heads. ``offsets`` is int64, ``[sequences + 1]``.
    ``state_out`` and with ``initial`` ``state`` are ``[sequences, state_heads, 128, 128]`` of float32, ``[value,
    key]``, or with ``indexed`` pools of them, in which ``slots``, int64, has the place of each sequence. The state of
    a sequence without tokens is not written. ``tensor_maps`` is a workspace of 128 bytes for each multiprocessor of
    the GPU. ``checkpoints``, ``checkpoint_starts`` are None, ``all_checkpoints`` is 1, ``checkpoint_tokens`` 0,
    ``blocks`` is ``sequences * state_heads``.
    """
    run = library.FLASHINFER.module(_PREFILL).delta_rule_prefill_dsl_sm90

    def launch() -> Any:
        import torch

        tokens, heads, sequences = 256, 4, 3

        def of(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.empty(shape, dtype=dtype, device="cuda")

        given = of(tokens, heads, _DIM, dtype=to_torch(dtype))
        states = of(sequences, heads, _DIM, _DIM)
        gates = of(tokens, heads)
        slots = of(sequences, dtype=torch.int64) if indexed else None
        return run(
            given, states, given, given, given, states if initial else None, gates, gates,
            of(sequences + 1, dtype=torch.int64), _SCALE, state_indices=slots,
        )  # fmt: skip

    return compiled_until_launch(launch)


@kernel(
    op="flashinfer.gdn_prefill_blackwell",
    imports=[_PREFILL_BLACKWELL],
    targets=["sm_100a", "sm_103a"],
    supports=supports_prefill_blackwell,
    speed_only=GRID,  # a persistent grid whose blocks take one head of a sequence after another
)
def gdn_prefill_blackwell(
    dtype: DType, query_heads: int, value_heads: int, initial: bool = False, indexed: bool = False
) -> Any:
    """The gated delta rule for sequences that stand behind one another, of a fixed number of heads.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``. ``q``,
    ``k``, ``v`` and ``out`` are contiguous ``[tokens, heads, 128]``; states are ``[sequences, heads, 128, 128]`` of
    float32.
    """
    run = library.FLASHINFER.module(_PREFILL_BLACKWELL).chunk_gated_delta_rule_sm100

    def launch() -> Any:
        import torch

        tokens, sequences, heads = 256, 3, max(query_heads, value_heads)

        def of(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.empty(shape, dtype=dtype, device="cuda")

        few, many = (of(tokens, n, _DIM, dtype=to_torch(dtype)) for n in (query_heads, value_heads))
        states, gates = of(sequences, heads, _DIM, _DIM), of(tokens, heads)
        slots = of(sequences, dtype=torch.int32) if indexed else None
        return run(
            few, few, many, gates, gates, of(tokens, heads, _DIM, dtype=to_torch(dtype)),
            of(sequences + 1, dtype=torch.int32), states if initial else None, states, _SCALE, state_indices=slots,
        )  # fmt: skip

    library.without_disk_cache()
    return compiled_until_launch(launch)
