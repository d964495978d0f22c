"""Functions of SGLang around kernels of its own sources that Hopper runs, each beside the same in torch.

Each case imports the engine itself, so that one that cannot be imported is one line of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch

from tests.gpu.attached.references import EPS, Pair, delta_rule, delta_rule_inputs, normed, random
from tests.gpu.engines.site import Case, attention, attention_paged, integers, product

OPS = "sglang.kernels.ops"
FA = f"{OPS}.attention.flash_attn.cute.interface"


def rmsnorm_fanout() -> list[Pair]:
    x, weights = random(8, 4096), [random(4096) for _ in range(3)]
    outs = import_module(f"{OPS}.layernorm.rmsnorm_fanout").rmsnorm_fanout(x, *weights, EPS)
    return [(out, normed(x, weight)) for out, weight in zip(outs, weights, strict=True)]


def fused_a_gemm(rows: int) -> Callable[[], list[Pair]]:
    def case() -> list[Pair]:
        run = import_module(f"{OPS}.gemm.cutedsl_dsv3_fused_a_gemm")._dsv3_fused_a_gemm_run
        return product(lambda a, w: run(a, w.t()), random(rows, 7168), random(2112, 7168))

    return case


def warp_splitk(bias: bool) -> Callable[[], list[Pair]]:
    def case() -> list[Pair]:
        module = import_module(f"{OPS}.gemm.dense_bf16_gemm_warp_splitk")
        m, n, k = 8, 512, 4096
        a, w, added = random(m, k), random(n, k, scale=0.02), random(n)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        tactic = module.default_tactic(m, n, k)
        module.run_warp_splitk_dense(a, w.t(), out, True, tactic, bias=added if bias else None)
        return [(out, a.float() @ w.float().T + (added.float() if bias else 0.0))]

    return case


def router_gemv() -> list[Pair]:
    run = import_module(f"{OPS}.gemm.muse_spark_router_gemv_cutedsl").router_gemv_cute
    x, w = random(2, 4096, dtype=torch.float32), random(64, 4096, dtype=torch.float32)
    return [(run(x, w), (x.double() @ w.double().T).float())]


def gdn_metadata() -> list[Pair]:
    prepare = import_module(f"{OPS}.attention.linear.gdn_blackwell").prepare_metadata_cutedsl
    return [(prepare(integers(0, 100, 356, 612, 1024), 1024)[1], integers(0, 2, 6, 10, 17).float())]


def gdn_decode(batch: int) -> Callable[[], list[Pair]]:
    def case() -> list[Pair]:
        update = import_module(f"{OPS}.attention.cutedsl_gdn").cutedsl_fused_sigmoid_gating_delta_rule_update
        heads, value_heads, pool = 16, 32, 64
        given = delta_rule_inputs(batch, value_heads)
        given["dt_bias"] = given["dt_bias"].bfloat16()  # as the kernel takes it
        states = random(pool, value_heads, 128, 128, dtype=torch.float32)
        slots = (torch.arange(batch, device="cuda") * 3 + 2).to(torch.int32)
        before = states[slots.long()].transpose(-1, -2).clone()
        q, k = given["q"][:, :, :heads].contiguous(), given["k"][:, :, :heads].contiguous()
        offsets = torch.arange(batch + 1, device="cuda", dtype=torch.int32)
        out = update(
            given["A_log"], given["dt_bias"], q, k, given["v"], given["a"], given["b"], states, slots,
            cu_seqlens=offsets,
        )  # fmt: skip
        shared = {"q": q.repeat_interleave(2, 2), "k": k.repeat_interleave(2, 2)}
        wanted, after = delta_rule(before, {**given, **shared})
        return [(out, wanted), (states[slots.long()].transpose(-1, -2), after)]

    return case


CASES: tuple[Case, ...] = (
    Case(f"{OPS}.layernorm.rmsnorm_fanout:_compile_fanout", rmsnorm_fanout),
    Case(f"{OPS}.gemm.cutedsl_dsv3_fused_a_gemm:_compiled_kernel, 8 rows", fused_a_gemm(8)),
    Case(f"{OPS}.gemm.cutedsl_dsv3_fused_a_gemm:_compiled_kernel, 16 rows", fused_a_gemm(16)),
    Case(f"{OPS}.gemm.dense_bf16_gemm_warp_splitk:_compile", warp_splitk(bias=False)),
    Case(f"{OPS}.gemm.dense_bf16_gemm_warp_splitk:_compile, bias", warp_splitk(bias=True)),
    Case(f"{OPS}.gemm.muse_spark_router_gemv_cutedsl:_compile", router_gemv, 0.001),
    Case(f"{OPS}.attention.linear.gdn_blackwell:PrepMetaKernel.compile", gdn_metadata, 0.0),
    Case(f"{OPS}.attention.cutedsl_gdn:_get_compiled_kernel, few", gdn_decode(4)),
    Case(f"{OPS}.attention.cutedsl_gdn:_get_compiled_kernel, many", gdn_decode(20)),
    Case(f"{FA}:_flash_attn_fwd, varlen, causal", attention(FA, causal=True)),
    Case(f"{FA}:_flash_attn_fwd, varlen", attention(FA, causal=False)),
    Case(f"{FA}:_flash_attn_fwd, paged", attention_paged(FA)),
)
