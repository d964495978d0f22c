"""Functions of vLLM around kernels of its own sources that Hopper runs, each beside the same in torch.

Each case imports the engine itself, so that one that cannot be imported is one line of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional as F

from tests.gpu.attached.references import EPS, Pair, normed, random
from tests.gpu.engines.site import Case, attention, attention_paged, integers, product

LINEAR = "vllm.model_executor.kernels.linear.cute_dsl"
V4 = "vllm.models.deepseek_v4.nvidia.ops"
KIMI = "vllm.models.kimi_k3.nvidia"
MUSE = "vllm.models.muse_spark.nvidia.ops.cute_dsl"
FP32 = torch.float32


def step5_rms_norm() -> list[Pair]:
    x, w = random(8, 4096), random(4096)
    return [(import_module("vllm.models.step5.nvidia.ops.rms_norm").rms_norm(x, w, EPS), normed(x, w))]


def ll_bf16(rows: int) -> Callable[[], list[Pair]]:
    return lambda: product(
        lambda a, w: import_module(f"{LINEAR}.ll_bf16").ll_bf16_gemm(a, w), random(rows, 7168), random(256, 7168)
    )


def ll_fp32w() -> list[Pair]:
    gemm = import_module(f"{LINEAR}.ll_fp32w").LLFp32WGemm()
    return product(gemm, random(4, 6144), random(128, 6144, dtype=FP32))


def skinny_gemm() -> list[Pair]:
    gemm = import_module(f"{LINEAR}.skinny_gemm").ShapeDynamicSkinnyGemm()
    return product(gemm, random(4, 4096), random(1024, 4096))


def skinny_gemm_with_residual() -> list[Pair]:
    gemm = import_module(f"{LINEAR}.skinny_gemm").ShapeDynamicSkinnyGemm()
    a, w, residual = random(2, 2048), random(512, 2048, scale=0.02), random(2, 512)
    return [(gemm(a, w, residual=residual), a.float() @ w.float().T + residual.float())]


def kda_skinny(which: str, columns: int, width: int, rows: int) -> Callable[[], list[Pair]]:
    def case() -> list[Pair]:
        gemm = import_module(f"{KIMI}.ops.cute_dsl.kda_skinny_gemm").KdaSkinnyGemm()
        a, w = random(4, width), random(rows, columns, scale=0.02)
        return [(getattr(gemm, f"run_{which}")(a, w), a[:, :columns].float() @ w.float().T)]

    return case


def hc_down_silu(rows: int) -> Callable[[], list[Pair]]:
    def case() -> list[Pair]:
        rank, hc, k = 320, 4, 10240
        x, w = random(rows, k), random(rank + hc, k, scale=0.01)
        down, logits = import_module("vllm.models.qwen4_exp.nvidia.ops.cute_dsl.hc_down_silu").hc_down_silu(
            x, w, rank, hc
        )
        wanted = x.float() @ w.float().T
        return [(down, F.silu(wanted[:, :rank] / hc)), (logits, wanted[:, rank:])]

    return case


def dequant_gather() -> list[Pair]:
    kernel = import_module(f"{V4}.dequant_gather_k_cutedsl")._DEQUANT_GATHER_K_CACHE_CUTEDSL_KERNEL
    blocks, size, requests, rows = 16, 64, 2, 256
    codes = torch.randint(0, 120, (blocks, size, 448), device="cuda", dtype=torch.uint8)  # of fp8, without NaN
    exponents = torch.randint(124, 131, (blocks, size, 8), device="cuda", dtype=torch.uint8)
    rope = random(blocks, size, 64)
    data = torch.cat([codes, rope.view(torch.uint8)], -1).reshape(blocks, -1)
    cache = torch.cat([data, exponents.reshape(blocks, -1)], -1).reshape(blocks, size, 584)
    table = torch.arange(requests * 4, device="cuda", dtype=torch.int32).reshape(requests, 4)
    out = torch.zeros(requests, rows, 512, device="cuda", dtype=torch.bfloat16)
    kernel(
        out=out, k_cache=cache, seq_lens=integers(rows, rows), gather_lens=None, block_table=table, block_size=size,
        offset=0,
    )  # fmt: skip
    scales = torch.exp2(exponents[..., :7].float() - 127).repeat_interleave(64, -1)
    whole = torch.cat([codes.view(torch.float8_e4m3fn).float() * scales, rope.float()], -1)
    return [(out, whole[: requests * 4].reshape(requests, rows, 512))]


def rotated(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Pairs of neighbours turned by the angles of a table of cosines and sines."""
    cos, sin = table.float().chunk(2, -1)
    one, two = x.float()[..., 0::2], x.float()[..., 1::2]
    return torch.stack([one * cos - two * sin, two * cos + one * sin], -1).flatten(-2)


def angles(rows: int) -> torch.Tensor:
    turns = torch.rand(rows, 32, device="cuda") * 6.28
    return torch.cat([turns.cos(), turns.sin()], -1)


def indexer_q_fp8() -> list[Pair]:
    kernel = import_module(f"{V4}.fused_indexer_q_cutedsl")._INDEXER_Q_FP8_KERNEL
    tokens, heads, table = 8, 64, angles(128)
    positions = torch.arange(tokens, device="cuda") * 7
    q, weights = random(tokens, heads, 128), random(tokens, heads)
    codes = torch.zeros(tokens, heads, 128, device="cuda", dtype=torch.uint8).view(torch.float8_e4m3fn)
    scaled = torch.zeros(tokens, heads, device="cuda", dtype=FP32)
    kernel(
        positions=positions, q=q, cos_sin_cache=table, weights=weights, weights_softmax_scale=0.5,
        weights_head_scale=0.25, q_fp8=codes, weights_out=scaled,
    )  # fmt: skip
    turned = torch.cat([q[..., :64].float(), rotated(q[..., 64:], table[positions][:, None])], -1)
    scale = torch.exp2(torch.ceil(torch.log2(turned.bfloat16().float().abs().amax(-1).clamp(min=1e-4) / 448)))
    return [(codes.float() * scale[..., None], turned), (scaled, weights.float() * scale * 0.125)]


def fused_q() -> list[Pair]:
    function = import_module("vllm.models.deepseek_v32.nvidia.ops.fused_q_cutedsl").fused_q_cutedsl
    tokens, heads, table = 8, 16, angles(128)
    positions = torch.arange(tokens, device="cuda") * 5
    q, nope, scale = random(tokens, heads, 64), random(tokens, heads, 512), torch.full((1,), 0.5, device="cuda")
    out = torch.zeros(tokens, heads, 576, device="cuda", dtype=torch.uint8).view(torch.float8_e4m3fn)
    empty: Any = torch.empty(tokens, 0, 0, device="cuda")
    function(
        positions, q, table, nope, scale, out, empty, None, None, 1.0, 1.0, None, None, has_indexer=False,
    )  # fmt: skip
    wanted = torch.cat([nope.float(), rotated(q, table[positions][:, None])], -1) / 0.5
    return [(out.float(), wanted)]


def gdn_metadata() -> list[Pair]:
    prepare = import_module("vllm.model_executor.layers.mamba.ops.gdn_chunk_cutedsl").prepare_metadata_cutedsl
    return [(prepare(integers(0, 100, 356, 612, 1024), 1024)[1], integers(0, 2, 6, 10, 17).float())]


def qk_norm() -> list[Pair]:
    x = random(16, 8 * 128)
    heads = x.view(16, 8, 128)
    wanted = normed(heads, torch.ones(128, device="cuda")).view(16, -1)
    return [(import_module(f"{MUSE}.qk_norm").qk_norm(x, 128, EPS), wanted)]


def moe_finalize() -> list[Pair]:
    tokens, topk, hidden = 16, 4, 4096
    rows, weights, gain = random(tokens * topk, hidden), random(tokens, topk), random(hidden)
    order = torch.randperm(tokens * topk, device="cuda").to(torch.int32).view(tokens, topk)
    out = random(tokens, hidden)
    import_module(f"{MUSE}.moe_finalize_rmsnorm").moe_finalize_with_rmsnorm(
        rows, weights, order, gain, out, topk=topk, eps=EPS, weight_before_norm=False
    )
    each = normed(rows[order.long()], gain)
    return [(out, (each * weights.float()[..., None]).sum(1))]


def embedding_gather() -> list[Pair]:
    module = import_module(f"{KIMI}.specialized_decode.cutedsl.common.embedding")
    weight, ids = random(512, 7168), integers(3, 511, 40, 600)
    out = random(4, 7168)
    device = torch.device("cuda", 0)
    module.compile_gather(torch.int32, 512, module.architecture(device))(ids, weight, out, 0, 10000)
    wanted = F.pad(weight.float(), (0, 0, 0, 200))[ids.long()]
    return [(out, wanted)]


def lamport_copy() -> list[Pair]:
    module = import_module(f"{KIMI}.ops.cute_dsl.latent_moe_tail.lamport_copy")
    mailbox = random(1, 8, 7168)
    wanted = mailbox[:, :4].float().clone()
    copy = module.LamportCopyKernel(hidden_dim=7168, max_m=8, ctas=16, threads=256)
    return [(copy(mailbox, m=4), wanted)]


def flint_qkv() -> list[Pair]:
    function = import_module("vllm.models.flint.ops.qkv_fused").flint_qkv_fused
    tokens, heads, kv = 4, 16, 2
    x, residual, gain = random(tokens, 2048), random(tokens, 2048), random(2048)
    w, q_gain, k_gain = random((heads + 2 * kv) * 128, 2048, scale=0.02), random(128), random(128)
    cache = torch.zeros(2, 4, 16, kv, 128, device="cuda", dtype=torch.bfloat16)
    slots, positions = torch.tensor([5, 17, 33, 62], device="cuda"), torch.arange(tokens, device="cuda")
    q, total = function(
        x, residual, gain, EPS, w, None, None, q_gain, k_gain, EPS, None, positions, cache[0], cache[1], slots, heads,
        kv,
    )  # fmt: skip
    added = (x.float() + residual.float()).bfloat16()
    split = (normed(added, gain).bfloat16().float() @ w.float().T).view(tokens, -1, 128)
    keys, values = (part.reshape(64, kv, 128)[slots] for part in cache)
    return [
        (total, added.float()), (q.view(tokens, heads, 128), normed(split[:, :heads], q_gain)),
        (keys, normed(split[:, heads : heads + kv], k_gain)), (values, split[:, heads + kv :]),
    ]  # fmt: skip


def flint_decode(window: int | None) -> Callable[[], list[Pair]]:
    def case() -> list[Pair]:
        function = import_module("vllm.models.flint.ops.decode_attention").flint_decode_attention
        group = import_module("vllm.models.flint.ops.decode_attention")._GQA
        batch, kv, pages = 2, 2, 8
        cache, q = random(batch * pages, kv, 16, 256), random(batch, kv * group, 128)
        table = torch.arange(batch * pages, device="cuda", dtype=torch.int32).view(batch, pages)
        lengths, sinks = integers(100, 128), random(kv * group, dtype=FP32)
        out = random(batch, kv * group, 128)
        function(q, cache, table, lengths, sinks, window, 128**-0.5, out)
        keys, values = (
            part.view(batch, pages, kv, 16, 128).permute(0, 2, 1, 3, 4).reshape(batch, kv, -1, 128)
            for part in cache.float().chunk(2, -1)
        )
        scores = torch.einsum("bkgd,bksd->bkgs", q.float().view(batch, kv, group, 128), keys) * 128**-0.5
        at = torch.arange(pages * 16, device="cuda")
        seen = at < lengths[:, None]
        if window is not None:
            seen = seen & (at >= lengths[:, None] - window)
        scores = scores.masked_fill(~seen[:, None, None], -torch.inf)
        sink = sinks.view(1, kv, group, 1).expand(batch, -1, -1, -1)
        shares = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
        return [(out, torch.einsum("bkgs,bksd->bkgd", shares, values).reshape(batch, -1, 128))]

    return case


FA, TML = "vllm.vllm_flash_attn.cute.interface", "vllm.third_party.tml_fa4.interface"
CASES: tuple[Case, ...] = (
    Case("vllm.models.step5.nvidia.ops.rms_norm:_compile", step5_rms_norm),
    Case(f"{LINEAR}.ll_bf16:LLBf16Gemm._compile_dotprod", ll_bf16(2)),
    Case(f"{LINEAR}.ll_bf16:LLBf16Gemm._compile_dotprod, prefetching", ll_bf16(1)),
    Case(f"{LINEAR}.ll_bf16:LLBf16Gemm._compile_splitk", ll_bf16(8)),
    Case(f"{LINEAR}.ll_fp32w:LLFp32WGemm.compile", ll_fp32w),
    Case(f"{LINEAR}.skinny_gemm:ShapeDynamicSkinnyGemm._compile", skinny_gemm),
    Case(f"{LINEAR}.skinny_gemm:ShapeDynamicSkinnyGemm._compile, residual", skinny_gemm_with_residual),
    Case(f"{KIMI}.ops.cute_dsl.kda_skinny_gemm:KdaSkinnyGemm._compile_n", kda_skinny("n", 7168, 7168, 144)),
    Case(f"{KIMI}.ops.cute_dsl.kda_skinny_gemm:KdaSkinnyGemm._compile_k", kda_skinny("k", 128, 144, 1536)),
    Case("vllm.models.qwen4_exp.nvidia.ops.cute_dsl.hc_down_silu:HcDownSiluGemm.compile, fma", hc_down_silu(2)),
    Case("vllm.models.qwen4_exp.nvidia.ops.cute_dsl.hc_down_silu:HcDownSiluGemm.compile, mma", hc_down_silu(8)),
    Case(f"{V4}.dequant_gather_k_cutedsl (VllmCuTeDSLJitKernel.compile)", dequant_gather),
    Case(f"{V4}.fused_indexer_q_cutedsl:IndexerQFp8Kernel (VllmCuTeDSLJitKernel.compile)", indexer_q_fp8, 0.07),
    Case("vllm.models.deepseek_v32.nvidia.ops.fused_q_cutedsl:FusedQKernel.compile", fused_q, 0.07),
    Case("vllm.model_executor.layers.mamba.ops.gdn_chunk_cutedsl:PrepMetaKernel.compile", gdn_metadata, 0.0),
    Case(f"{MUSE}.qk_norm:_compiled_kernel", qk_norm),
    Case(f"{MUSE}.moe_finalize_rmsnorm:_compiled_kernel", moe_finalize),
    Case(f"{KIMI}.specialized_decode.cutedsl.common.embedding:compile_gather", embedding_gather, 0.0),
    Case(f"{KIMI}.ops.cute_dsl.latent_moe_tail.lamport_copy:compile_kernel", lamport_copy, 0.0),
    Case("vllm.models.flint.ops.qkv_fused:_compile_norm, _compile_qkv", flint_qkv),
    Case("vllm.models.flint.ops.decode_attention:_compile", flint_decode(None)),
    Case("vllm.models.flint.ops.decode_attention:_compile, window", flint_decode(48)),
    Case(f"{FA}:_flash_attn_fwd, varlen, causal", attention(FA, causal=True)),
    Case(f"{FA}:_flash_attn_fwd, varlen", attention(FA, causal=False)),
    Case(f"{FA}:_flash_attn_fwd, paged", attention_paged(FA)),
    Case(f"{TML}:_flash_attn_fwd, varlen, causal", attention(TML, causal=True)),
    Case(f"{TML}:_flash_attn_fwd, varlen", attention(TML, causal=False)),
)
