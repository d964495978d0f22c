"""Launch the kernels of manifests/cutlass-examples.yaml and compare them with torch.

``python benchmarks/cutlass_examples.py [--json FILE] [OP...]``. The cache is found as by any program, such as through
``PRECAST_CACHE_PATH``; neither CUTLASS nor a compiler is needed. Each kernel of sm_80 and sm_90a that is listed below
is called on tensors of other sizes than the example's, where it does not fix them. ``--json`` keeps evidence in the
form of ``precast verify --json``. Exit status 1: one is wrong, or none was there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from precast import loader
from precast.build.verification.evidence import where_and_when
from precast.kernels.authoring.launching.cases import this_device


class Checked(NamedTuple):
    """One launch: the variant, what was computed, what torch says, and how far off it may be, beside one."""

    variant: Any
    what: str
    got: Any
    wanted: Any
    limit: float


Checks = Iterator[Checked]


def normal(*shape: int, dtype: torch.dtype = torch.float16, scale: float = 1.0) -> Any:
    """Normally distributed values."""
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def stream() -> int:
    """The current stream's handle, which kernels that were compiled with a stream take as an argument."""
    return int(torch.cuda.current_stream().cuda_stream)


def variants(op: str) -> list[tuple[Any, Any]]:
    """The variants of an op that this GPU runs, each with its kernel."""
    return [(one, loader.get(op, dict(one.config))) for one in loader.variants(op)]


def elementwise() -> Checks:
    for variant, kernel in variants("cutlass.elementwise_add"):
        a, b = (normal(1000, 3000, dtype=getattr(torch, variant.config["dtype"])) for _ in range(2))
        out = torch.empty_like(a)
        kernel(a, b, out)
        yield Checked(variant, "1000x3000", out, a + b, 1e-3)


def rmsnorm() -> Checks:
    for variant, kernel in variants("cutlass.blackwell.rmsnorm"):
        width = variant.config["N"]
        x, weight = normal(777, width, dtype=torch.bfloat16), normal(width, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        kernel(x.data_ptr(), weight.data_ptr(), out.data_ptr(), 777, 1e-6, stream())
        yield Checked(variant, "777 rows", out, functional.rms_norm(x.double(), (width,), weight.double(), 1e-6), 2e-2)


def cta_norm() -> Checks:
    for variant, kernel in variants("cutlass.hopper.cta_norm"):
        layer, width = variant.config["norm_type"] == "layer", variant.config["N"]
        x, weight, bias = normal(variant.config["M"], width), normal(width), normal(width)
        out = torch.empty_like(x)
        kernel(out, x, weight, bias if layer else None, 1e-6)
        shape, wide = (width,), x.double()
        if layer:
            wanted = functional.layer_norm(wide, shape, weight.double(), bias.double(), 1e-6)
        else:
            wanted = functional.rms_norm(wide, shape, weight.double(), 1e-6)
        yield Checked(variant, "as compiled", out, wanted, 1e-2)


def attention() -> Checks:
    for variant, kernel in variants("cutlass.flash_attention_v2"):
        q, k, v = (normal(2, 1024, 8, 128, dtype=torch.bfloat16) for _ in range(3))
        out, causal = torch.empty_like(q), variant.config["is_causal"]
        kernel(q, k, v, out, 128**-0.5, stream())
        heads = (t.transpose(1, 2).float() for t in (q, k, v))
        wanted = functional.scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2)
        yield Checked(variant, "2x1024, 8 heads", out, wanted, 2e-2)


def fmha() -> Checks:
    """The example takes (tokens, size, heads that share keys, heads of keys, batch)."""
    for variant, kernel in variants("cutlass.hopper.fmha"):
        q, k, v = normal(2, 1024, 4, 2, 128), normal(2, 1024, 4, 1, 128), normal(2, 1024, 4, 1, 128)
        out, causal, scale = torch.empty_like(q), variant.config["is_causal"], 128**-0.5
        lse = torch.empty(2, 1024, 4, 2, 1, dtype=torch.float32, device="cuda")
        window = 0 if causal else None  # how far a query sees behind its own place
        given = (t.permute(1, 4, 3, 2, 0) for t in (q, k, v, out, lse))
        kernel(*given, scale * math.log2(math.e), scale, 1.0, None, window, stream())
        heads = (t.flatten(2, 3).transpose(1, 2).float() for t in (q, k.expand_as(q), v.expand_as(q)))
        wanted = functional.scaled_dot_product_attention(*heads, is_causal=causal, scale=scale).transpose(1, 2)
        yield Checked(variant, "2x1024, 8 heads", out.flatten(2, 3), wanted, 1e-2)


def hstu_attention() -> Checks:
    """Weights are silu of the scores with a bias of each pair; the example fixes all sizes."""
    for variant, kernel in variants("cutlass.hstu_attention"):
        batch, tokens, heads, size = (variant.config[key] for key in ("batch_size", "seqlen_q", "num_head", "head_dim"))
        q, k, v = (normal(batch, tokens, heads, size, dtype=torch.bfloat16, scale=0.2) for _ in range(3))
        bias = normal(batch, heads, tokens, tokens, dtype=torch.bfloat16, scale=0.2)
        out = torch.empty_like(q)
        kernel(q, k, v, out, bias, stream())
        turned = [t.transpose(1, 2).double() for t in (q, k, v)]
        weights = functional.silu(turned[0] @ turned[1].transpose(2, 3) + bias.double())
        if variant.config["is_causal"]:
            weights = weights.tril()
        yield Checked(variant, "as compiled", out, (weights @ turned[2]).transpose(1, 2), 2e-2)


def sgemm() -> Checks:
    for variant, kernel in variants("cutlass.sgemm"):
        m, n, k = variant.config["mnk"]
        a, b = normal(k, m, dtype=torch.float32).T, normal(k, n, dtype=torch.float32).T
        out = torch.empty(m, n, device="cuda")
        kernel(a, b, out, stream())
        yield Checked(variant, "as compiled", out, a.double() @ b.double().T, 1e-3)


def tensorop_gemm() -> Checks:
    """The example takes the batch first, and ``b`` as k by n."""
    for variant, kernel in variants("cutlass.tensorop_gemm"):
        m, n, k = 1024, 1536, 768
        a, b = normal(1, k, m, scale=0.2).transpose(1, 2), normal(1, k, n, scale=0.2)
        out = torch.empty(1, m, n, dtype=torch.float16, device="cuda")
        kernel(a, b, out, stream())
        yield Checked(variant, "1024x1536x768", out, a.double() @ b.double(), 1e-2)


def dense_gemm(op: str) -> Callable[[], Checks]:
    def checks() -> Checks:
        for variant, kernel in variants(op):
            a, b = normal(1024, 768, scale=0.2), normal(1536, 768, scale=0.2)
            out = torch.empty(1024, 1536, dtype=torch.float16, device="cuda")
            kernel(*(t.unsqueeze(-1) for t in (a, b, out)), stream())
            yield Checked(variant, "1024x1536x768", out, a.double() @ b.double().T, 1e-2)

    return checks


def dense_gemm_fp8() -> Checks:
    for variant, kernel in variants("cutlass.hopper.dense_gemm_fp8"):
        a, b = (normal(1024, 1024, scale=0.5).to(torch.float8_e4m3fn) for _ in range(2))
        out, one = torch.empty(1024, 1024, dtype=torch.float16, device="cuda"), torch.ones(1, device="cuda")
        kernel(*(t.unsqueeze(-1) for t in (a, b, out)), one, one, stream())
        yield Checked(variant, "1024 cubed", out, a.double() @ b.double().T, 5e-2)


def grouped_gemm() -> Checks:
    for variant, kernel in variants("cutlass.hopper.grouped_gemm"):
        sizes = [tuple(size[:3]) for size in variant.config["problem_sizes_mnkl"]]
        held = [
            (normal(m, k, scale=0.3), normal(n, k, scale=0.3), torch.empty(m, n, dtype=torch.float16, device="cuda"))
            for m, n, k in sizes
        ]
        shapes = torch.tensor([[*size, 1] for size in sizes], dtype=torch.int32, device="cuda")
        strides = torch.tensor([[t.stride() for t in group] for group in held], dtype=torch.int32, device="cuda")
        addresses = [[t.data_ptr() for t in group] for group in held]
        pointers = torch.tensor(addresses, dtype=torch.int64, device="cuda")
        maps = next(a for a in variant.signature.passed if a.name == "tensormap_cute_tensor")
        workspace = torch.empty(maps.shape, dtype=torch.int64, device="cuda")
        kernel(*(t.unsqueeze(-1) for t in held[0]), shapes, strides, pointers, workspace, stream())
        for a, b, out in held:
            yield Checked(variant, "x".join(map(str, out.shape)), out, a.double() @ b.double().T, 1e-2)


CHECKS: dict[str, Callable[[], Checks]] = {
    "cutlass.elementwise_add": elementwise,
    "cutlass.blackwell.rmsnorm": rmsnorm,
    "cutlass.hopper.cta_norm": cta_norm,
    "cutlass.flash_attention_v2": attention,
    "cutlass.hopper.fmha": fmha,
    "cutlass.hstu_attention": hstu_attention,
    "cutlass.sgemm": sgemm,
    "cutlass.tensorop_gemm": tensorop_gemm,
    "cutlass.hopper.dense_gemm": dense_gemm("cutlass.hopper.dense_gemm"),
    "cutlass.hopper.dense_gemm_persistent": dense_gemm("cutlass.hopper.dense_gemm_persistent"),
    "cutlass.hopper.dense_gemm_fp8": dense_gemm_fp8,
    "cutlass.hopper.grouped_gemm": grouped_gemm,
}


def main(argv: list[str] | None = None) -> int:
    """Launch all, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help=f"one of {', '.join(CHECKS)}; all if left out")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    place = where_and_when(this_device(), os.environ)
    evidence: dict[str, dict[str, Any]] = {}
    for op in options.ops or CHECKS:
        try:
            for one in CHECKS[op]():
                kept = evidence.setdefault(op, {}).setdefault(
                    one.variant.artifact.key, {**place, "check": "examples", "problems": 0, "failed": [], "worst": 0.0}
                )
                off = float(((one.got.double() - one.wanted.double()).abs() / (one.wanted.double().abs() + 1)).max())
                share = off / one.limit
                kept["problems"] += 1
                kept["worst"] = max(kept["worst"], share) if share == share else share
                if not share < 1:
                    kept["failed"].append(f"{one.what}: off by {off:.3g}, where {one.limit:g} is allowed")
                print(f"{op} {one.what}: {share:.3f} of what is allowed", flush=True)
        except loader.PrecastError as error:
            print(f"{op}: left out: {error}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps({"evidence": evidence}, sort_keys=True, indent=1) + "\n")
    failed = [text for keys in evidence.values() for one in keys.values() for text in one["failed"]]
    print("\n".join(failed))
    return 1 if failed or not evidence else 0


if __name__ == "__main__":
    sys.exit(main())
