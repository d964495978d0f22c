"""vLLM's own functions around kernels of its own sources: each call goes up to a launch, on tensors without memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

OPS = "vllm.models.deepseek_v4.nvidia.ops"


def new(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    return torch.empty(*shape, device="cuda", dtype=dtype)


def call_function() -> None:
    import_module("vllm.models.step5.nvidia.ops.rms_norm").rms_norm(new(8, 4096), new(4096), 1e-6)


def call_function_of_a_device() -> None:
    module = import_module("vllm.models.deepseek_v41.nvidia.specialized_decode.moe.routed_expert_gemm")
    assert module._route_kernel(0) is not None and module._route_kernel(5) is not None


def call_static_method() -> None:
    module = import_module("vllm.model_executor.layers.mamba.ops.gdn_chunk_cutedsl")
    module.prepare_metadata_cutedsl(new(5, dtype=torch.int32), 1024)


def call_three_static_methods() -> None:
    module = import_module("vllm.model_executor.layers.mamba.ops.gdn_chunk_cutedsl")
    tokens, heads, value_heads, k, v, sequences, chunks = 1024, 4, 8, 128, 128, 4, 19
    single = torch.float32
    module.chunk_gated_delta_rule_cutedsl(
        new(1, tokens, heads, k), new(1, tokens, heads, k), new(1, tokens, value_heads, v),
        new(1, tokens, value_heads, dtype=single), new(1, tokens, value_heads, dtype=single),
        new(sequences, value_heads, v, k, dtype=single), new(sequences + 1, dtype=torch.int32),
        new(chunks, 2, dtype=torch.int32), new(sequences + 1, dtype=torch.int32),
    )  # fmt: skip


def call_jit_kernel() -> None:
    kernel = import_module(f"{OPS}.dequant_gather_k_cutedsl")._DEQUANT_GATHER_K_CACHE_CUTEDSL_KERNEL
    kernel(
        out=new(2, 256, 512), k_cache=new(16, 64, 584, dtype=torch.uint8), seq_lens=new(2, dtype=torch.int32),
        gather_lens=None, block_table=new(2, 8, dtype=torch.int32), block_size=64, offset=0,
    )  # fmt: skip


def call_keyed_method() -> None:
    module = import_module("vllm.model_executor.kernels.linear.cute_dsl.ll_bf16")
    module.LLBf16Gemm()(new(2, 7168), new(256, 7168))


def call_other_keyed_method() -> None:
    module = import_module("vllm.model_executor.kernels.linear.cute_dsl.ll_bf16")
    module.LLBf16Gemm()(new(8, 7168), new(256, 7168))


def attention(module: str) -> None:
    offsets: Any = torch.tensor([0, 128, 256], dtype=torch.int32, device="cuda")
    import_module(module).flash_attn_varlen_func(
        new(256, 8, 128), new(256, 2, 128), new(256, 2, 128), cu_seqlens_q=offsets, cu_seqlens_k=offsets,
        max_seqlen_q=128, max_seqlen_k=128, causal=True,
    )  # fmt: skip


def call_copy_of_flash_attention() -> None:
    attention("vllm.vllm_flash_attn.cute.interface")


def call_second_copy_of_flash_attention() -> None:
    attention("vllm.third_party.tml_fa4.interface")


if __name__ == "__main__":
    for name, call in list(globals().items()):
        if name.startswith("call_"):
            call()
