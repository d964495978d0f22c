"""Calls of quack and FlashAttention-4, as a program makes them: what ``attach.py`` times, and what it is recorded from.

    precast record -o attach.yaml -t sm_90a -- benchmarks/attach_program.py     # no GPU is needed
    precast build attach.yaml -o CACHE

``attach.py`` runs it with a mode. It prints one line of JSON: the seconds from torch and CUDA being ready to both right
results, the memory that this took, and the host time of each front end's call.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

CALLS, BATCHES = 300, 7
_LIMIT = 5e-3  # of a relative error in bfloat16


def main() -> None:
    mode = os.environ.get("BENCHMARK_MODE")
    if mode is None:  # a recording: make each call once
        for call in (*program().values(), *more().values()):
            call()
        return
    torch.zeros(1, device="cuda")
    ready, before = time.perf_counter(), _resident()
    if mode.startswith("attached"):
        from precast import loader

        loader.attach(["quack", "flash_attention"], mode="frozen", without_compiler=mode == "attached without DSL")
    found = {name: call() for name, call in program().items()}
    torch.cuda.synchronize()
    seconds, resident = time.perf_counter() - ready, _resident() - before
    errors = {name: _error(found[name], expected) for name, expected in references().items()}
    with torch.no_grad():
        host = {name: _host_time(call) for name, call in {**program(), **more()}.items()}
    print(
        json.dumps({
            "mode": mode, "seconds": seconds, "megabytes": resident, "microseconds": host, "errors": errors,
            "right": all(error < _LIMIT for error in errors.values()), "dsl": "cutlass._mlir" in sys.modules,
        })
    )  # fmt: skip


def _tensor(*shape: int, seed: int = 0) -> Any:
    made = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    return made if made.is_meta else made.copy_(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))


STARTS = (0, 100, 800, 801)


def _attention_inputs() -> tuple[Any, Any, Any]:
    return _tensor(801, 16, 128, seed=2), _tensor(801, 4, 128, seed=3), _tensor(801, 4, 128, seed=4)


def program() -> dict[str, Callable[[], Any]]:
    """quack's product and FlashAttention-4's attention over sequences of several lengths."""
    import flash_attn.cute.interface as attention
    from quack.gemm_interface import gemm

    a, b = _tensor(256, 4096), _tensor(6144, 4096, seed=1).t()
    q, k, v = _attention_inputs()
    starts = torch.tensor(STARTS, device="cuda", dtype=torch.int32)

    def attend() -> Any:
        result = attention.flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=700, max_seqlen_k=700, causal=True
        )
        return result[0] if isinstance(result, tuple) else result

    return {"gemm": lambda: gemm(a, b, tuned=False), "varlen attention": attend}


def more() -> dict[str, Callable[[], Any]]:
    """Calls whose host time counts: small ones, as a decoding step makes them."""
    import quack
    from quack.gemm_interface import gemm, gemm_add

    x, weight = _tensor(64, 4096), _tensor(4096)
    a, b, c = _tensor(3, 4096), _tensor(6144, 4096, seed=1).t(), _tensor(3, 6144)
    return {
        "rmsnorm": lambda: quack.rmsnorm(x, weight),
        "small gemm": lambda: gemm(a, b, tuned=False),
        "gemm and bias": lambda: gemm_add(a, b, c, tuned=False),
    }


def references() -> dict[str, Any]:
    """The same by torch, in float32."""
    product = _tensor(256, 4096).float() @ _tensor(6144, 4096, seed=1).t().float()
    inputs = _attention_inputs()
    parts = []
    for start, end in itertools.pairwise(STARTS):
        q, k, v = (tensor[None, start:end].transpose(1, 2).float() for tensor in inputs)
        attend = torch.nn.functional.scaled_dot_product_attention
        parts.append(attend(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)[0])
    return {"gemm": product, "varlen attention": torch.cat(parts)}


def _error(found: Any, expected: Any) -> float:
    difference = (found.float() - expected).norm() / expected.norm()
    return float(difference)


def _host_time(call: Callable[[], Any]) -> float:
    """The least time that a batch of calls takes the host, in microseconds a call; the queue never fills."""
    for _ in range(50):
        call()
    least = float("inf")
    for _ in range(BATCHES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        least = min(least, (time.perf_counter() - start) / CALLS)
    return least * 1e6


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
