"""FlashInfer's gated delta rule: ``gdn_decode`` and ``gdn_prefill`` (Qwen3-Next), ``kda_decode`` (Kimi Linear).

A head keeps a state ``S`` of ``[value, key]``. A token decays it, ``S = S * decay``, moves what the key finds in it
towards the value, ``S += beta * (v - S k) k'``, and reads ``out = scale * S q``. In GDN the decay is one number for a head,
in KDA one for each of the key's elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.first_launch import compiled_until_launch
from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.format.config import Config
from precast.loader.format.target import Target

_GDN_DECODE = "flashinfer.gdn_kernels.gdn_decode_pretranspose"
_GDN_PREFILL = "flashinfer.gdn_kernels.delta_rule_dsl.delta_rule_sm90"
_GDN_PREFILL_BLACKWELL = "flashinfer.gdn_kernels.blackwell.gdn_prefill"
_KDA_DECODE = "flashinfer.kda_kernels.recurrent_kda"
_DIM = 128
_SCALE = _DIM**-0.5
_EPS = 1e-6
_FLOAT32 = Tolerance(rtol=2.0**-16, atol=2.0**-14, ulps=0.75)
"""Arithmetic in float32 with approximate exponentials, of values about one in size, and the rounding where it is stored."""
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


def supports_kda(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = library.FLASHINFER.obstacle()
    if reason is None and config["head_dim"] not in (64, 128):
        reason = f"head_dim is {config['head_dim']}: use 64 or 128"
    return reason or rows_refusal(config)


def rows_refusal(config: Config) -> str | None:
    """Why the number of rows that a warp holds is not one of the kernel's, or None.

    >>> rows_refusal({"rows": 12})
    'rows is 12: use 8, 16 or 32'
    """
    return None if config["rows"] in (8, 16, 32) else f"rows is {config['rows']}: use 8, 16 or 32"


def decode_problems(config: Config) -> Sequence[Problem]:
    """One sequence, a few, and a batch that servers run; the states of a pool stand in any order."""
    return [{"batch": batch} for batch in (1, 3, 33, 256)]


def prefill_problems(config: Config) -> Sequence[Problem]:
    """One token, chunks of 64 and one more, several lengths; at last the heads of Qwen3-Next."""
    small = [{"first": n, "second": m, "query_heads": 2, "value_heads": 4} for n, m in ((1, 2), (64, 65), (130, 7))]
    return [*small, {"first": 700, "second": 1, "query_heads": 16, "value_heads": 32}]


def kda_problems(config: Config) -> Sequence[Problem]:
    """One sequence, a few, with as many query heads as value heads and fewer; a batch with the heads of Kimi Linear."""
    sizes = [(1, 1, 1), (3, 2, 6), (17, 4, 4), (128, 32, 32)]
    return [{"batch": batch, "query_heads": h, "value_heads": hv} for batch, h, hv in sizes]


def decode_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """A batch whose states stand in a pool, the last sequence of a longer batch in none."""
    import torch

    batch, h, hv = problem["batch"], configs.integer(config, "query_heads"), configs.integer(config, "value_heads")
    draw = _Draw(device, seed)
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
    draw = _Draw(device, seed)
    slots = torch.arange(2, device=device)
    q, k = (torch.nn.functional.normalize(draw(tokens, h, _DIM, dtype="float32"), dim=-1) for _ in range(2))
    state = draw(2, hv, _DIM, _DIM, dtype="float32") if config["initial"] else None
    cuda = torch.device(device).type == "cuda"
    processors = torch.cuda.get_device_properties(device).multi_processor_count if cuda else 1
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


def kda_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """One token of each sequence; with ``indexed`` as one row of tokens, whose states stand in a pool in any order."""
    import torch

    batch, h, hv = problem["batch"], problem["query_heads"], problem["value_heads"]
    dim, indexed = configs.integer(config, "head_dim"), bool(config["indexed"])
    draw = _Draw(device, seed)
    lead = (1, batch) if indexed else (batch, 1)
    pool = batch + 2 if indexed else batch
    order = torch.randperm(pool, generator=torch.Generator().manual_seed(seed))[:batch].to(torch.int32).to(device)
    gate = draw(*lead, hv, dim)
    beta = draw(*lead, hv)
    return {
        "q": draw(*lead, h, dim),
        "k": draw(*lead, h, dim),
        "v": draw(*lead, hv, dim),
        "gate": -gate.abs() if config["gate"] == "log" else gate,
        "beta": beta if config["logit"] else beta.sigmoid(),
        "state": draw(pool, hv, dim, dim),
        "source": draw(1, hv, dim, dim),
        "source_slots": torch.zeros(1, dtype=torch.int32, device=device),
        "out": tensors.empty((*lead, hv, dim), "bfloat16", device=device),
        "a_log": draw(h, dtype="float32"),
        "dt_bias": draw(h * dim, dtype="float32"),
        "offsets": torch.arange(batch + 1, dtype=torch.int32, device=device),
        "slots": order,
        "accepted": torch.ones(1, dtype=torch.int32, device=device),
        "scale": dim**-0.5,
        "eps": _EPS,
        "bound": -5.0,
    }


class _Draw:
    """Normally distributed tensors, one after another."""

    def __init__(self, device: Any, seed: int) -> None:
        import torch

        self._device = device
        self.generator = torch.Generator(device=device).manual_seed(seed)

    def __call__(self, *shape: int, dtype: str = "bfloat16") -> Any:
        import torch

        return torch.randn(shape, generator=self.generator, device=self._device).to(to_torch(dtype))


def step(state: Any, q: Any, k: Any, v: Any, decay: Any, beta: Any) -> tuple[Any, Any]:
    """The states behind one token of each row, and what the queries read: the definition, for any leading dimensions.

    >>> import torch
    >>> one = torch.ones(1)
    >>> step(torch.zeros(1, 1), one, one, 3 * one, one, one)
    (tensor([[3.]]), tensor([3.]))
    """
    state = state * decay.unsqueeze(-2)
    found = (state @ k.unsqueeze(-1)).squeeze(-1)
    state = state + beta.unsqueeze(-1).unsqueeze(-1) * (v - found).unsqueeze(-1) * k.unsqueeze(-2)
    return state, (state @ q.unsqueeze(-1)).squeeze(-1)


def decode_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64. What has no state has an output of zeros."""
    import torch

    group = configs.integer(config, "value_heads") // configs.integer(config, "query_heads")
    q, k, v, a, b = (inputs[name].double()[:, 0] for name in ("q", "k", "v", "a", "b"))
    q, k = (_unit(x, bool(config["qk_norm"])).repeat_interleave(group, dim=1) for x in (q, k))
    rate = -inputs["a_log"].double().exp() * torch.nn.functional.softplus(a + inputs["dt_bias"].double())
    held = inputs["read"] >= 0
    slots = inputs["read"][held].long()
    decay = rate.exp()[held].unsqueeze(-1).expand(-1, -1, _DIM)
    pool = inputs["state"].double()
    made, read = step(pool[slots], q[held] * float(str(config["scale"])), k[held], v[held], decay, b.sigmoid()[held])
    out = torch.zeros(inputs["out"].shape, dtype=torch.float64, device=pool.device)
    out[held, 0] = read
    return {"out": out, "state": pool.index_copy(0, slots, made)}


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
    for number, (begin, end) in enumerate(zip(offsets, offsets[1:], strict=False)):
        state = states[number]
        for token in range(begin, end):
            rate = decay[token].unsqueeze(-1).expand(-1, _DIM)
            state, out[token] = step(state, q[token], k[token], v[token], rate, beta[token])
        states[number] = state
    return {"out": out.permute(2, 0, 1), "state_out": states}


def kda_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64."""
    import torch

    dim, indexed = configs.integer(config, "head_dim"), bool(config["indexed"])
    lead = 0 if indexed else 1
    q, k, v, gate, beta = (inputs[name].double().squeeze(lead) for name in ("q", "k", "v", "gate", "beta"))
    group = v.shape[1] // q.shape[1]
    q, k = (_unit(x, bool(config["qk_norm"])).repeat_interleave(group, dim=1) for x in (q, k))
    if config["gate"] != "log":
        gate = gate + inputs["dt_bias"].double().view(-1, dim).repeat_interleave(group, dim=0)
        rate = inputs["a_log"].double().exp().repeat_interleave(group).unsqueeze(-1)
        softplus = config["gate"] == "softplus"
        gate = -rate * torch.nn.functional.softplus(gate) if softplus else inputs["bound"] * (rate * gate).sigmoid()
    beta = beta.sigmoid() if config["logit"] else beta
    pool = inputs["state"].double()
    slots = inputs["slots"].long() if indexed else torch.arange(pool.shape[0], device=pool.device)
    made, read = step(pool[slots], q * inputs["scale"], k, v, gate.exp(), beta)
    return {"out": read.unsqueeze(lead), "state": pool.index_copy(0, slots, made)}


def _unit(x: Any, wanted: bool) -> Any:
    return x * (x.square().sum(dim=-1, keepdim=True) + _EPS).rsqrt() if wanted else x


def tolerance(config: Config) -> Tolerance:
    """All arithmetic is in float32."""
    return _FLOAT32


def prefill_tolerance(config: Config) -> Tolerance:
    """Chunks are four products of matrices, of which each operand is rounded to the dtype; sums stay below four."""
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


def kda_cost(config: Config, problem: Problem) -> Cost:
    """The same as of GDN, with a state of 16 bits and a gate for each element of the key."""
    dim, batch, h, hv = configs.integer(config, "head_dim"), problem["batch"], problem["query_heads"], problem["value_heads"]
    states = batch * hv * dim * dim
    return Cost(6 * states, 2 * (2 * states + batch * (2 * h * dim + 3 * hv * dim + hv)))


@kernel(
    op="flashinfer.gdn_decode",
    imports=[_GDN_DECODE],
    targets=["sm_90+"],
    supports=supports_decode,
    problems=decode_problems,
    inputs=decode_inputs,
    outputs=["out", "state"],
    in_place=["state"],
    special_values=["zero"],
    reference=decode_reference,
    tolerance=tolerance,
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
    ``b`` ``[batch, 1, value_heads]``, of bfloat16; ``a_log`` and ``dt_bias`` are ``[value_heads]`` of float32. The decay is
    ``exp(-exp(a_log) * softplus(a + dt_bias))``, ``beta`` the sigmoid of ``b``. ``state`` is a pool ``[slots,
    value_heads, 128, 128]`` of float32, ``[value, key]``; ``read`` and ``write`` are the slots of the sequences, int32:
    one below zero gives zeros, and changes no state. With ``qk_norm`` queries and keys are scaled to length one.
    ``offsets`` is int32 ``[batch + 1]``, and not read. ``stream`` is the handle of the stream.
    """
    run = library.FLASHINFER.module(_GDN_DECODE).run_pretranspose_decode
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
            of(*heads, _DIM), of(*heads), of(*heads, _DIM), batch, 1, query_heads, value_heads, _DIM, _DIM, scale, qk_norm,
            use_pool_indexing=True, initial_state_indices=slots,
        )  # fmt: skip

    return compiled_until_launch(launch)


@kernel(
    op="flashinfer.gdn_prefill",
    imports=[_GDN_PREFILL],
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
    offsets, scale, query_heads, key_heads, value_heads, state_heads, sequences, all_checkpoints, checkpoint_tokens, blocks,
    stream)``: the gated delta rule for sequences that stand behind one another.

    Of contiguous ``[tokens, heads, 128]`` are passed ``q.permute(0, 2, 1)``, and ``permute(2, 0, 1)`` of ``k``, ``v`` and
    ``out``. ``decay`` and ``beta`` are flat ``[tokens * state_heads]`` of float32, between zero and one, where
    ``state_heads`` is the larger number of query and value heads. ``offsets`` is int64, ``[sequences + 1]``.
    ``state_out`` and with ``initial`` ``state`` are ``[sequences, state_heads, 128, 128]`` of float32, ``[value, key]``, or
    with ``indexed`` pools of them, in which ``slots``, int64, has the place of each sequence. The state of a sequence without tokens is not
    written. ``tensor_maps`` is a workspace of 128 bytes for each multiprocessor of the GPU. ``checkpoints``, ``checkpoint_starts`` are None,
    ``all_checkpoints`` is 1, ``checkpoint_tokens`` 0, ``blocks`` is ``sequences * state_heads``.
    """
    run = library.FLASHINFER.module(_GDN_PREFILL).delta_rule_prefill_dsl_sm90

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
    imports=[_GDN_PREFILL_BLACKWELL],
    targets=["sm_100a", "sm_103a"],
    supports=supports_prefill_blackwell,
    speed_only=GRID,  # a persistent grid whose blocks take one head of a sequence after another
)
def gdn_prefill_blackwell(
    dtype: DType, query_heads: int, value_heads: int, initial: bool = False, indexed: bool = False
) -> Any:
    """The gated delta rule for sequences that stand behind one another, of a fixed number of heads.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``. Of contiguous ``[tokens,
    heads, 128]`` are passed ``q``, ``k``, ``v`` and ``out``; states are ``[sequences, heads, 128, 128]`` of float32.
    """
    run = library.FLASHINFER.module(_GDN_PREFILL_BLACKWELL).chunk_gated_delta_rule_sm100

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


@kernel(
    op="flashinfer.kda_decode",
    imports=[_KDA_DECODE],
    targets=["sm_90+"],
    supports=supports_kda,
    problems=kda_problems,
    inputs=kda_inputs,
    outputs=["out", "state"],
    in_place=["state"],
    special_values=["zero"],
    reference=kda_reference,
    tolerance=tolerance,
    cost=kda_cost,
    arguments={
        "mQ": "q", "mK": "k", "mV": "v", "mG": "gate", "mBeta": "beta", "mH": "state", "mInitialStateSource": "source",
        "mInitialStateIndices": "source_slots", "mO": "out", "mALog": "a_log", "mDtBias": "dt_bias",
        "mCuSeqlens": "offsets", "mSsmStateIndices": "slots", "mNumAcceptedTokens": "accepted", "lower_bound": "bound",
    },
)  # fmt: skip
def kda_decode(
    head_dim: int = 128,
    gate: Literal["log", "softplus", "bounded"] = "softplus",
    qk_norm: bool = True,
    logit: bool = False,
    indexed: bool = True,
    rows: Tuned[int] = 16,
) -> Any:
    """``kda_decode(q, k, v, gate, beta, state, source, source_slots, out, a_log, dt_bias, offsets, slots, accepted, scale,
    eps, bound)``: one token of Kimi delta attention, for each sequence of a batch.

    ``q`` and ``k`` are ``[1, batch, query_heads, head_dim]``, ``v``, ``gate`` and ``out`` ``[1, batch, value_heads,
    head_dim]``, ``beta`` ``[1, batch, value_heads]``; without ``indexed`` the first two dimensions change places. ``state`` is a
    pool ``[slots, value_heads, head_dim, head_dim]``, ``[value, key]``; all of bfloat16. With ``indexed`` ``slots``,
    int32, has the place of each sequence, and ``offsets`` is 0, 1, 2, up to ``batch``. ``gate`` is the logarithm of the
    decay; or, plus ``dt_bias`` ``[query_heads * head_dim]``, the argument of ``-exp(a_log) * softplus(..)`` (``softplus``) or
    of ``bound * sigmoid(exp(a_log) * ..)`` (``bounded``), with ``a_log`` ``[query_heads]``, both of float32. With
    ``logit`` ``beta`` is the sigmoid of what is given. ``source``, ``source_slots`` and ``accepted`` are not read: pass
    tensors of one element of a state's shape, int32 and int32. ``eps`` is for ``qk_norm``.
    """
    kernels = library.FLASHINFER.module(_KDA_DECODE)
    return library.compiled(
        f"{_KDA_DECODE}:_get_compiled_kernel",
        HEAD_DIM=head_dim,
        USE_QK_L2NORM=int(qk_norm),
        USE_GATE_IN_KERNEL=int(gate != "log"),
        HAS_DT_BIAS=int(gate != "log"),
        USE_LOWER_BOUND=int(gate == "bounded"),
        USE_CU_SEQLENS=int(indexed),
        HAS_INITIAL_STATE_SOURCE=0,
        BETA_IS_LOGIT=int(logit),
        NUM_TOKENS=1,
        TILE_ROWS=rows,
        DOT_REDUCTION_SCHEDULE=kernels.DOT_REDUCTION_DUAL_ACCUM if rows != 8 else kernels.DOT_REDUCTION_TREE,
        ZERO_PADDED_OUTPUT=0,
        HAS_NUM_ACCEPTED_TOKENS=0,
    )
