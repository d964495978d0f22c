"""FlashInfer's gated delta rule: ``gdn_decode``, ``gdn_prefill`` and ``gdn_prefill_blackwell`` (Qwen3-Next).

The decay is one number for a head: see ``precast.kernels.adapters.flashinfer.delta_rule``.
"""

from __future__ import annotations

from typing import Any

from precast.kernels.adapters.first_launch import compiled_until_launch
from precast.kernels.adapters.flashinfer import delta_rule, library
from precast.kernels.adapters.flashinfer import gdn_cases as cases
from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import GRID, kernel
from precast.kernels.authoring.dtypes import to_torch
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DECODE = "flashinfer.gdn_kernels.gdn_decode_pretranspose"
_PREFILL_BLACKWELL = "flashinfer.gdn_kernels.blackwell.gdn_prefill"
_PREFILL = "flashinfer.gdn_kernels.delta_rule_dsl.delta_rule_sm90"
_DIM = 128
_SCALE = _DIM**-0.5


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


@kernel(
    op="flashinfer.gdn_decode",
    imports=[_DECODE],
    targets=["sm_90+"],
    supports=supports_decode,
    problems=cases.decode_problems,
    inputs=cases.decode_inputs,
    outputs=["out", "state"],
    in_place=["state"],
    special_values=["zero"],
    reference=cases.decode_reference,
    tolerance=delta_rule.tolerance,
    cost=cases.decode_cost,
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
    problems=cases.prefill_problems,
    inputs=cases.prefill_inputs,
    outputs=["out", "state_out"],
    workspace=["tensor_maps"],
    special_values=[],  # a decay of zero has no logarithm
    reference=cases.prefill_reference,
    tolerance=cases.prefill_tolerance,
    cost=cases.prefill_cost,
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
    problems=cases.blackwell_problems,
    inputs=cases.blackwell_inputs,
    outputs=["o", "s_out"],
    in_place=["s_out"],
    workspace=["tensormap_workspace"],
    special_values=[],  # a decay of zero has no logarithm
    reference=cases.blackwell_reference,
    tolerance=cases.prefill_tolerance,
    cost=cases.blackwell_cost,
    speed_only=GRID,  # a persistent grid whose blocks take one head of a sequence after another
)
def gdn_prefill_blackwell(
    dtype: DType, query_heads: int, value_heads: int, initial: bool = False, indexed: bool = False
) -> Any:
    """The gated delta rule for sequences that stand behind one another, of a fixed number of heads.

    The arguments are those of the library's kernel, by its names: see ``help(loader.get(..))``. ``q``, ``k``, ``v``
    and ``o`` are contiguous ``[tokens, heads, 128]``; ``gate``, the decay, and ``beta`` ``[tokens, heads]`` of float32,
    between zero and one. The states ``s_in`` and ``s_out`` are ``[sequences, heads, 128, 128]`` of float32, ``[value,
    key]``, or with ``indexed`` pools of them, in which ``s_indices``, int32, has the place of each sequence.
    ``tensormap_workspace`` is int8, 512 bytes for each multiprocessor of the GPU.
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
