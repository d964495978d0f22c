"""SGLang's own functions around kernels of its own sources: each call goes up to a launch, without memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

OPS = "sglang.kernels.ops"


def new(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    return torch.empty(*shape, device="cuda", dtype=dtype)


def call_function_of_a_device() -> None:
    weights = (new(4096), new(4096), new(4096))
    import_module(f"{OPS}.layernorm.rmsnorm_fanout").rmsnorm_fanout(new(8, 4096), *weights, 1e-6)


def call_function_that_makes_tensors() -> None:
    module = import_module(f"{OPS}.gemm.cutedsl_dsv3_fused_a_gemm")
    module._dsv3_fused_a_gemm_run(new(8, 7168), new(2112, 7168).t())


def call_decode() -> None:
    n, h, hv, k, v = 4, 16, 32, 128, 128
    import_module(f"{OPS}.attention.cutedsl_gdn").cutedsl_fused_sigmoid_gating_delta_rule_update(
        new(hv, dtype=torch.float32), new(hv), new(n, 1, h, k), new(n, 1, h, k), new(n, 1, hv, v), new(n, 1, hv),
        new(n, 1, hv), new(64, hv, v, k, dtype=torch.float32), new(n, dtype=torch.int32),
        cu_seqlens=new(n + 1, dtype=torch.int32),
    )  # fmt: skip


def call_static_method() -> None:
    module = import_module(f"{OPS}.attention.linear.gdn_blackwell")
    module.prepare_metadata_cutedsl(new(5, dtype=torch.int32), 1024)


def call_copy_of_flash_attention() -> None:
    offsets: Any = torch.tensor([0, 128, 256], dtype=torch.int32, device="cuda")
    import_module(f"{OPS}.attention.flash_attn.cute.interface").flash_attn_varlen_func(
        new(256, 8, 128), new(256, 2, 128), new(256, 2, 128), cu_seqlens_q=offsets, cu_seqlens_k=offsets,
        max_seqlen_q=128, max_seqlen_k=128, causal=True,
    )  # fmt: skip


if __name__ == "__main__":
    for name, call in list(globals().items()):
        if name.startswith("call_"):
            call()
