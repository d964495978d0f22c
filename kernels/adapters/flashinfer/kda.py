"""FlashInfer's Kimi delta attention: ``kda_decode`` (Kimi Linear).

The decay is a number for each element of the key: see ``precast.kernels.adapters.flashinfer.delta_rule``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels.adapters.flashinfer import delta_rule, library
from precast.kernels.authoring import configs, tensors
from precast.kernels.authoring.declare import Cost, Problem, kernel
from precast.kernels.authoring.hints import Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DECODE = "flashinfer.kda_kernels.recurrent_kda"


def supports(config: Config, target: Target) -> str | None:
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


def problems(config: Config) -> Sequence[Problem]:
    """One sequence, a few, with as many query heads as value heads and fewer; a batch with the heads of Kimi Linear."""
    sizes = [(1, 1, 1), (3, 2, 6), (17, 4, 4), (128, 32, 32)]
    return [{"batch": batch, "query_heads": h, "value_heads": hv} for batch, h, hv in sizes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """One token of each sequence; with ``indexed`` as one row of tokens, whose states stand in a pool in any order."""
    import torch

    batch, h, hv = problem["batch"], problem["query_heads"], problem["value_heads"]
    dim, indexed = configs.integer(config, "head_dim"), bool(config["indexed"])
    draw = delta_rule.Draw(device, seed)
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
        "eps": delta_rule.EPS,
        "bound": -5.0,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64."""
    import torch

    dim, indexed = configs.integer(config, "head_dim"), bool(config["indexed"])
    lead = 0 if indexed else 1
    q, k, v, gate, beta = (inputs[name].double().squeeze(lead) for name in ("q", "k", "v", "gate", "beta"))
    group = v.shape[1] // q.shape[1]
    q, k = (delta_rule.unit(x, bool(config["qk_norm"])).repeat_interleave(group, dim=1) for x in (q, k))
    if config["gate"] != "log":
        gate = gate + inputs["dt_bias"].double().view(-1, dim).repeat_interleave(group, dim=0)
        rate = inputs["a_log"].double().exp().repeat_interleave(group).unsqueeze(-1)
        softplus = config["gate"] == "softplus"
        gate = -rate * torch.nn.functional.softplus(gate) if softplus else inputs["bound"] * (rate * gate).sigmoid()
    beta = beta.sigmoid() if config["logit"] else beta
    pool = inputs["state"].double()
    slots = inputs["slots"].long() if indexed else torch.arange(pool.shape[0], device=pool.device)
    new_state, read = delta_rule.step(pool[slots], q * inputs["scale"], k, v, gate.exp(), beta)
    return {"out": read.unsqueeze(lead), "state": pool.index_copy(0, slots, new_state)}


def cost(config: Config, problem: Problem) -> Cost:
    """The same as of GDN, with a state of 16 bits and a gate for each element of the key."""
    dim, batch, h, hv = (
        configs.integer(config, "head_dim"),
        problem["batch"],
        problem["query_heads"],
        problem["value_heads"],
    )
    states = batch * hv * dim * dim
    return Cost(6 * states, 2 * (2 * states + batch * (2 * h * dim + 3 * hv * dim + hv)))


@kernel(
    op="flashinfer.kda_decode",
    imports=[_DECODE],
    targets=["sm_90+"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out", "state"],
    in_place=["state"],
    special_values=["zero"],
    reference=reference,
    tolerance=delta_rule.tolerance,
    cost=cost,
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
    """``kda_decode(q, k, v, gate, beta, state, source, source_slots, out, a_log, dt_bias, offsets, slots, accepted,
    scale, eps, bound)``: one token of Kimi delta attention, for each sequence of a batch.

    ``q`` and ``k`` are ``[1, batch, query_heads, head_dim]``, ``v``, ``gate`` and ``out`` ``[1, batch, value_heads,
    head_dim]``, ``beta`` ``[1, batch, value_heads]``; without ``indexed`` the first two dimensions change places.
    ``state`` is a pool ``[slots, value_heads, head_dim, head_dim]``, ``[value, key]``; all of bfloat16. With
    ``indexed`` ``slots``, int32, has the place of each sequence, and ``offsets`` is 0, 1, 2, up to ``batch``. ``gate``
    is the logarithm of the decay; or, plus ``dt_bias`` ``[query_heads * head_dim]``, the argument of ``-exp(a_log) *
    softplus(..)`` (``softplus``) or of ``bound * sigmoid(exp(a_log) * ..)`` (``bounded``), with ``a_log``
    ``[query_heads]``, both of float32. With ``logit`` ``beta`` is the sigmoid of what is given. ``source``,
    ``source_slots`` and ``accepted`` are not read: pass tensors of one element of a state's shape, int32 and int32.
    ``eps`` is for ``qk_norm``.
    """
    kernels = library.FLASHINFER.module(_DECODE)
    return library.compiled(
        f"{_DECODE}:_get_compiled_kernel",
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
