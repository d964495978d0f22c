"""FlashInfer's front ends that the CuTe DSL compiles for, each on a small problem, beside the same in torch.

The same module records and checks. Without a GPU, ``precast record -t sm_90a -o recorded.yaml -- python -m
tests.gpu.attached.warm_flashinfer`` writes down the kernels; their build is installed where the GPU is, and there
``python -m precast.loader.attach --mode frozen -m tests.gpu.attached.warm_flashinfer`` prints a line of JSON for each
front end: how far the result is from torch's, or what it raised. Names after the module select front ends.
"""

from __future__ import annotations

import flashinfer
import flashinfer.gdn_decode
import flashinfer.gdn_prefill
import flashinfer.kda_decode
import torch
from torch.nn import functional as F

from tests.gpu.attached.references import (
    BF16,
    EPS,
    Cases,
    Pair,
    blocks,
    delta_rule,
    delta_rule_inputs,
    from_fp4,
    kda_step,
    normed,
    print_lines,
    random,
)  # fmt: skip


def rmsnorm() -> list[Pair]:
    x, w = random(7, 1024), random(1024)
    return [(flashinfer.rmsnorm(x, w, EPS), normed(x, w))]


def qk_rmsnorm() -> list[Pair]:
    x, w = random(5, 8, 128), random(128)
    return [(flashinfer.rmsnorm(x, w, EPS), normed(x, w))]


def gemma_rmsnorm() -> list[Pair]:
    x, w = random(7, 1024), random(1024)
    return [(flashinfer.gemma_rmsnorm(x, w, EPS), normed(x, w, 1.0))]


def fused_add_rmsnorm() -> list[Pair]:
    x, residual, w = random(7, 1024), random(7, 1024), random(1024)
    total = x.float() + residual.float()
    wanted = normed(total, w)
    flashinfer.fused_add_rmsnorm(x, residual, w, EPS)
    return [(x, wanted), (residual, total)]


def gemma_fused_add_rmsnorm() -> list[Pair]:
    x, residual, w = random(7, 1024), random(7, 1024), random(1024)
    total = x.float() + residual.float()
    wanted = normed(total, w, 1.0)
    flashinfer.gemma_fused_add_rmsnorm(x, residual, w, EPS)
    return [(x, wanted), (residual, total)]


def layernorm() -> list[Pair]:
    x, w, b = random(7, 1024), random(1024, dtype=torch.float32), random(1024, dtype=torch.float32)
    return [(flashinfer.layernorm(x, w, b, EPS), F.layer_norm(x.float(), (1024,), w, b, EPS))]


def rmsnorm_quant() -> list[Pair]:
    x, w, scale = random(7, 1024), random(1024), torch.tensor(0.5, device="cuda")
    out = torch.empty(7, 1024, dtype=torch.float8_e4m3fn, device="cuda")
    flashinfer.norm.rmsnorm_quant(out, x, w, scale, EPS)
    return [(out, normed(x, w) / 0.5)]


def fused_add_rmsnorm_quant() -> list[Pair]:
    x, residual, w, scale = random(7, 1024), random(7, 1024), random(1024), torch.tensor(0.5, device="cuda")
    out, total = torch.empty(7, 1024, dtype=torch.float8_e4m3fn, device="cuda"), x.float() + residual.float()
    flashinfer.norm.fused_add_rmsnorm_quant(out, x, residual, w, scale, EPS)
    return [(out, normed(total, w) / 0.5), (residual, total)]


def rmsnorm_sigmoid_gate() -> list[Pair]:
    x, gate = random(16, 8, 64), random(16, 8, 64)
    wide = x.float()
    wanted = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5) * gate.float().sigmoid()
    flashinfer.norm.rmsnorm_sigmoid_gate(x, gate, 1e-5)  # in place
    return [(x, wanted)]


def gated_residual_rmsnorm() -> list[Pair]:
    branch, w = random(16, 8192), random(8192)
    residual, alpha, beta = (random(*shape, dtype=torch.float32) for shape in ((16, 8192), (8192,), (8192,)))
    got = flashinfer.norm.gated_residual_rmsnorm(branch, residual, w, alpha, beta, EPS)
    return [(got, alpha * residual + beta * normed(branch, w))]


def mxfp8_quantize() -> list[Pair]:
    x = random(128, 256)
    codes, scales = flashinfer.mxfp8_quantize(x, is_sf_swizzled_layout=False, backend="cute-dsl")
    return [(blocks(codes.float(), torch.exp2(scales.view(torch.uint8).float() - 127), 32), x.float())]


def mxfp8_quantize_swizzled() -> list[Pair]:
    x = random(128, 256)
    codes, _ = flashinfer.mxfp8_quantize(x, is_sf_swizzled_layout=True, backend="cute-dsl")
    plain, _ = flashinfer.mxfp8_quantize(x, is_sf_swizzled_layout=False, backend="cute-dsl")
    return [(codes, plain.float())]


def mxfp4_quantize() -> list[Pair]:
    x = random(128, 256)
    codes, scales = flashinfer.mxfp4_quantize(x, backend="cute-dsl", sfLayout=flashinfer.SfLayout.layout_linear)
    return [
        (blocks(from_fp4(codes), torch.exp2(scales.view(torch.uint8).flatten()[:1024].float() - 127), 32), x.float())
    ]


def nvfp4_quantize() -> list[Pair]:
    x = random(128, 256)
    scale = torch.tensor([448.0 * 6.0 / 6.0], device="cuda")
    codes, scales = flashinfer.nvfp4_quantize(x, scale, sfLayout=flashinfer.SfLayout.layout_linear, backend="cute-dsl")
    block = scales.view(torch.float8_e4m3fn).flatten()[:2048].float() / 448.0
    return [(blocks(from_fp4(codes), block, 16), x.float())]


def rmsnorm_fp4quant() -> list[Pair]:
    x, w = random(128, 1024), random(1024)
    scale = torch.tensor([1.0], device="cuda")
    codes, scales = flashinfer.cute_dsl.rmsnorm_fp4quant(x, w, global_scale=scale, eps=EPS)
    block = scales.view(torch.float8_e4m3fn).flatten()[: 128 * 64].float()
    return [(blocks(from_fp4(codes), block, 16), normed(x, w))]


def add_rmsnorm_fp4quant() -> list[Pair]:
    x, residual, w = random(128, 1024), random(128, 1024), random(1024)
    scale, total = torch.tensor([1.0], device="cuda"), x.float() + residual.float()
    got = flashinfer.cute_dsl.add_rmsnorm_fp4quant(x, residual, w, global_scale=scale, eps=EPS)
    block = got[1].view(torch.float8_e4m3fn).flatten()[: 128 * 64].float()
    return [(blocks(from_fp4(got[0]), block, 16), normed(total, w))]


def top_k_varlen() -> list[Pair]:
    logits = torch.randn(4, 4096, device="cuda")
    lengths = torch.full((4,), 4096, dtype=torch.int32, device="cuda")
    found, _ = flashinfer.top_k_varlen(logits, lengths, 512, backend="radix")
    return [(logits.gather(1, found.long()).sort(-1).values, logits.topk(512, -1).values.sort(-1).values)]


def gated_delta_rule_decode() -> list[Pair]:
    given, state = delta_rule_inputs(2, 16), random(2, 16, 128, 128, dtype=torch.float32)
    wanted, after = delta_rule(state, given)
    got, left = flashinfer.gdn_decode.gated_delta_rule_decode(state=state, backend="flashinfer", **given)
    return [(got, wanted), (left, after)]


def gated_delta_rule_decode_pretranspose() -> list[Pair]:
    given, state = delta_rule_inputs(2, 16), random(2, 16, 128, 128, dtype=torch.float32)
    wanted, after = delta_rule(state.transpose(-1, -2), given)
    got, left = flashinfer.gdn_decode.gated_delta_rule_decode_pretranspose(state=state, backend="flashinfer", **given)
    return [(got, wanted), (left, after.transpose(-1, -2))]


def chunk_gated_delta_rule() -> list[Pair]:
    length, heads = 64, 4
    q, v = random(length, heads, 128, scale=0.1), random(length, heads, 128, scale=0.1)
    k = F.normalize(random(length, heads, 128).float(), dim=-1).to(BF16)
    g, beta = torch.rand(length, heads, device="cuda") * 0.2 + 0.8, torch.rand(length, heads, device="cuda")
    offsets = torch.tensor([0, length], dtype=torch.int64, device="cuda")
    got, _ = flashinfer.gdn_prefill.chunk_gated_delta_rule(
        q, k, v, g, beta, 1.0, None, True, offsets, use_cp=False, backend="flashinfer"
    )
    state, rows = torch.zeros(heads, 128, 128, device="cuda"), []
    for t in range(length):
        state = state * g[t, :, None, None]
        change = (v[t].float() - torch.einsum("hk,hkv->hv", k[t].float(), state)) * beta[t, :, None]
        state = state + torch.einsum("hk,hv->hkv", k[t].float(), change)
        rows.append(torch.einsum("hk,hkv->hv", q[t].float(), state))
    return [(got, torch.stack(rows))]


def recurrent_kda() -> list[Pair]:
    batch, heads = 2, 8
    q, k, v = (random(batch, 1, heads, 128) for _ in range(3))
    g, beta = (
        -torch.rand(batch, 1, heads, 128, device="cuda").to(BF16),
        torch.rand(batch, 1, heads, device="cuda").to(BF16),
    )
    state = random(batch, heads, 128, 128)
    before = state.float().clone()
    got, _ = flashinfer.kda_decode.recurrent_kda(
        q, k, v, g, beta, initial_state=state, output_final_state=True, backend="cute-dsl"
    )
    return [(got[:, 0], kda_step(before, q[:, 0], k[:, 0], v[:, 0], g[:, 0], beta[:, 0]))]


def fused_moe() -> list[Pair]:
    """The two grouped products of the mixture of experts for sm_90; torch sorts the tokens, in place of C++."""
    from flashinfer.fused_moe.cute_dsl.sm90_contiguous_gather_grouped_gemm_act_fusion import (
        interleave_up_gate_sm90,
        sm90_contiguous_gather_grouped_gemm_act_fusion,
    )
    from flashinfer.fused_moe.cute_dsl.sm90_contiguous_grouped_gemm_finalize_fusion import (
        sm90_contiguous_grouped_gemm_finalize_fusion,
    )

    tokens, hidden, inner, experts, tile = 32, 256, 128, 4, 128
    x, scales = random(tokens, hidden, scale=0.5), torch.full((tokens, 1), 0.75, device="cuda")
    gate_up, down = random(experts, 2 * inner, hidden, scale=0.06), random(experts, hidden, inner, scale=0.09)
    each = tokens // experts  # token t goes to expert t // each: one tile an expert
    rows = torch.full((experts, tile), 0, dtype=torch.int32, device="cuda")
    rows[:, :each] = torch.arange(tokens, dtype=torch.int32, device="cuda").view(experts, each)
    expert = torch.arange(experts, dtype=torch.int32, device="cuda")
    limits, count = expert * tile + each, torch.full((1,), experts, dtype=torch.int32, device="cuda")
    middle = torch.empty(experts * tile, inner, dtype=BF16, device="cuda")
    sm90_contiguous_gather_grouped_gemm_act_fusion(
        x, interleave_up_gate_sm90(gate_up), expert, limits, rows.flatten(), count, out=middle, topk=1,
        permuted_m=experts * tile,
    )  # fmt: skip
    out = torch.zeros(tokens, hidden, dtype=BF16, device="cuda")
    sm90_contiguous_grouped_gemm_finalize_fusion(
        middle, down, expert, limits, rows.flatten(), count, scales, out, topk=1
    )
    both = torch.einsum("eth,eih->eti", x.float().view(experts, each, hidden), gate_up.float())
    acted = F.silu(both[..., :inner]) * both[..., inner:]
    wanted = torch.einsum("eti,ehi->eth", acted, down.float()).reshape(tokens, hidden) * 0.75
    return [(out, wanted)]


def fused_moe_front_end() -> list[Pair]:
    """The same by its front end, which sorts the tokens in a C++ module that FlashInfer builds."""
    from flashinfer.fused_moe.cute_dsl import cute_dsl_fused_moe_bf16

    x, selected = random(16, 256), (torch.arange(32, device="cuda", dtype=torch.int32) % 4).view(16, 2)
    weights = random(4, 256, 256, scale=0.06), random(4, 256, 128, scale=0.09)
    scales = torch.full((16, 2), 0.5, device="cuda")
    got = cute_dsl_fused_moe_bf16(x, selected, scales, *weights, 4, 2)
    return [(got, got.float())]


def mamba_ssd() -> list[Pair]:
    from flashinfer.mamba import ssd_combined_fwd

    x, dt = random(1, 256, 8, 64), torch.rand(1, 256, 8, device="cuda")
    a, b, c = -torch.rand(8, device="cuda"), random(1, 256, 1, 128), random(1, 256, 1, 128)
    return [(ssd_combined_fwd(x, dt, a, b, c)[0], x.float())]


def mm_fp4() -> list[Pair]:
    a, b = random(128, 256), random(256, 256)
    scale = torch.tensor([448.0], device="cuda")
    qa, sa = flashinfer.nvfp4_quantize(a, scale, backend="cute-dsl")
    qb, sb = flashinfer.nvfp4_quantize(b, scale, backend="cute-dsl")
    alpha = torch.tensor([1 / 448.0**2], device="cuda")
    got = flashinfer.mm_fp4(qa, qb.T, sa, sb.T, alpha, BF16, backend="cute-dsl")
    return [(got, a.float() @ b.float().T)]


def fp8_paged_mqa_logits() -> list[Pair]:
    from flashinfer.attn_scores import fp8_paged_mqa_logits as logits

    q = random(2, 1, 32, 128).to(torch.float8_e4m3fn)
    fused = torch.zeros(4, 64, 1, 132, dtype=torch.uint8, device="cuda")
    weights = torch.rand(2, 32, device="cuda")
    tables = torch.arange(4, dtype=torch.int32, device="cuda").view(2, 2)
    got = logits(q, fused, weights, tables, torch.tensor([100, 128], dtype=torch.int32, device="cuda"), 128)
    return [(got, got.float())]


CASES: Cases = (
    (rmsnorm, 0.02), (qk_rmsnorm, 0.02), (gemma_rmsnorm, 0.02), (fused_add_rmsnorm, 0.02),
    (gemma_fused_add_rmsnorm, 0.02), (layernorm, 0.02), (rmsnorm_quant, 0.07), (fused_add_rmsnorm_quant, 0.07),
    (rmsnorm_sigmoid_gate, 0.02), (gated_residual_rmsnorm, 0.02), (mxfp8_quantize, 0.07),
    (mxfp8_quantize_swizzled, 0.0), (mxfp4_quantize, 0.3), (nvfp4_quantize, 0.3), (rmsnorm_fp4quant, 0.3),
    (add_rmsnorm_fp4quant, 0.3), (top_k_varlen, 0.0), (gated_delta_rule_decode, 0.02),
    (gated_delta_rule_decode_pretranspose, 0.02), (chunk_gated_delta_rule, 0.02), (recurrent_kda, 0.03),
    (fused_moe, 0.02), (fused_moe_front_end, 0.02), (mamba_ssd, 0.02), (mm_fp4, 0.3), (fp8_paged_mqa_logits, 0.02),
)  # fmt: skip


if __name__ == "__main__":
    print_lines(CASES)
