"""``attention_bwd``: the gradients of attention, in the kernels that FlashAttention runs in sequence."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Literal

from precast.kernels.adapters.attention import backward_parts, cases, library
from precast.kernels.authoring.declare import kernel
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

ARGUMENTS = {
    "mQ": "q", "mK": "k", "mV": "v", "mO": "out", "mdO": "dout", "mLSE": "lse", "mLSElog2": "lse_log2",
    "mPdPsum": "dpsum", "mdPsum": "dpsum", "mdQaccum": "accum", "mdQ": "dq", "mdK": "dk", "mdV": "dv",
    "mdQ_semaphore": "dq_turns", "mdK_semaphore": "dk_turns", "mdV_semaphore": "dv_turns",
    "mCuSeqlensQ": "cu_seqlens_q", "mCuSeqlensK": "cu_seqlens_k", "mSeqUsedQ": "seqused_q", "mSeqUsedK": "seqused_k",
    "window_size_left": "window_left", "window_size_right": "window_right",
}  # fmt: skip
_BATCH, _KV_HEADS, _LENGTH = 2, 2, 4096


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built for a target, or None."""
    reason = library.refusal(config, target)
    if reason is None and cases.sizes(config)[1] not in (64, 128):
        reason = f"head_dim is {config['head_dim']}: use 64 or 128"
    if reason is None and config["two_cta"] and (target.major == 9 or cases.sizes(config)[1] != 128):
        reason = "two_cta is for sm_100a and sm_103a, with a head_dim of 128: use false"
    return reason


@kernel(
    op="attention_bwd",
    imports=[library.INTERFACE],
    targets=library.TARGETS,
    supports=supports,
    arguments=ARGUMENTS,
    part=backward_parts.part,
)
def attention_bwd(
    dtype: DType,
    head_dim: int,
    heads_per_kv: int = 1,
    causal: bool = False,
    layout: Literal["dense", "varlen"] = "dense",
    deterministic: bool = False,
    two_cta: bool = False,
) -> Any:
    """Gradients of ``attention``, in parts: ``prepare``, ``main`` and ``dq``, and ``dkv`` where key heads are shared.

    Sequences are rounded up to whole blocks of queries and of keys: ``Q`` and ``K`` below. A block has 128 of either;
    on sm_90a with heads of 128, one of queries has 64 where causal and 80 where not; with ``two_cta``, keys come in
    pairs of blocks. Packed tokens of ``batch`` sequences are ``tokens + (batch + 1) * block - 1``, rounded down to
    blocks.

    - ``prepare(out, dout, dpsum, lse, lse_log2, accum, softmax_scale)`` makes ``dpsum`` and ``lse_log2`` ``[batch,
      heads, Q]`` of what the forward pass wrote and of the gradient of ``out``, and zeroes ``accum`` ``[batch, heads,
      Q * head_dim]``.
    - ``main(q, k, v, dout, lse, dpsum, accum, dk, dv, softmax_scale)``, where ``lse`` takes ``lse_log2``, adds to
      ``accum``, and writes ``dk`` and ``dv`` like ``k`` and ``v``. Where key heads are shared it adds to ``dk`` and
      ``dv`` ``[batch, kv_heads, K * head_dim]`` of float32, which the caller zeroes first.
    - ``dq(accum, dq, scale=softmax_scale)`` makes ``dq``, like ``q``.
    - ``dkv(accum, dq, scale)`` does the same for keys, with ``softmax_scale``, and for values, with 1.

    All else but what is like ``q``, ``k`` and ``v`` is of float32, and contiguous. With ``varlen`` there is no
    dimension ``batch``, and arguments named ``cu_seqlens_q`` and ``cu_seqlens_k`` are passed.

    With ``two_cta``, two blocks share each product: FlashAttention's own choice for heads of 128 on sm_100a. With
    ``deterministic``, blocks add up in a fixed order, and ``main`` also takes ``dq_turns`` ``[batch, heads, Q / 128,
    2 if two_cta else 1]`` and, where key heads are shared, ``dk_turns`` and ``dv_turns`` ``[batch, kv_heads, K / 128,
    2]``, with 128 for the size of a block: int32, which the caller zeroes. They have ``batch`` with ``varlen`` too, and
    ``Q`` and ``K`` are then those of the longest sequence. All parts of one backward pass have one config.
    """
    heads, packed = heads_per_kv * _KV_HEADS, layout == "varlen"
    tokens = (_BATCH * _LENGTH,) if packed else (_BATCH, _LENGTH)
    library.FLASH.switch("flash_attn.cute.utils", _fa_disable_2cta_enabled=not two_cta)

    def arguments() -> dict[str, Any]:
        def like(count: int) -> Any:
            return library.tensor((*tokens, count, head_dim), dtype)

        starts = library.tensor((_BATCH + 1,), "int32") if packed else None
        lengths = {"max_seqlen_q": _LENGTH, "max_seqlen_k": _LENGTH} if packed else {}
        return {
            "q": like(heads),
            "k": like(_KV_HEADS),
            "v": like(_KV_HEADS),
            "out": like(heads),
            "dout": like(heads),
            "lse": library.tensor((*tokens[:-1], heads, tokens[-1]), "float32"),
            "causal": causal,
            "deterministic": deterministic,
            "cu_seqlens_q": starts,
            "cu_seqlens_k": starts,
            **lengths,
        }

    with contextlib.ExitStack() as stack:
        if Target.parse(os.environ["CUTE_DSL_ARCH"]).major != 9:
            from precast.kernels.adapters.attention import backward_device

            kind = backward_device.Finished
            stack.enter_context(library.FLASH.replaced(library.INTERFACE, FlashAttentionBackwardSm100=kind))
        names = ("_bwd_preprocess", "_flash_attn_bwd", "_bwd_postprocess_convert")
        parts = library.run("_flash_attn_bwd", arguments, *names)
    # Queries and keys share one object where their tiles are the same.
    return parts if heads_per_kv == 1 or len(parts) == 4 else (*parts, parts[-1])
