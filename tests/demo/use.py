"""What an inference engineer's machine does: list, resolve, open, launch. Needs precast-loader and a cache wheel."""

from __future__ import annotations

import sys
import time
from typing import Any

from precast import loader
from precast.loader.errors import NoCudaDevice

FACTOR, EPS = 1.5, 1e-6


def main() -> int:
    """Take every variant of every op up to the launch, and through it where there is a device."""
    for unwanted in ("cutlass", "torch", "yaml"):
        assert unwanted not in sys.modules, f"importing precast.loader imported {unwanted}"
    for cache in loader.caches():
        if cache.error:
            raise cache.error
        print(f"  cache {cache.name}: found by {cache.origin}")
    listed = {op: sorted((v.artifact for v in loader.variants(op)), key=order) for op in loader.ops()}
    variants = [(op, artifact) for op, artifacts in listed.items() for artifact in artifacts]
    print(f"  {len(variants)} variants of {', '.join(listed)}\n")
    outcomes = [attempt(op, variant) for op, variant in variants]
    if not outcomes:
        print("the cache holds no variant: look at what precast build said", file=sys.stderr)
        return 1
    print()
    if "no CUDA device" in outcomes:
        print("  Every variant was resolved and opened; each launch ended in NoCudaDevice, as it should here.")
    else:
        launched = sum(o.startswith("correct") for o in outcomes)
        print(f"  {launched} variants launched, all correct; {len(outcomes) - launched} are for other GPUs.")
    assert "cutlass" not in sys.modules
    return 0


def order(variant: Any) -> Any:
    """The order in which people look for a variant."""
    return variant.target, [(key, str(value)) for key, value in variant.config.items()]


def attempt(op: str, variant: Any) -> str:
    """Resolve and open one variant for its own target, and call it."""
    start = time.perf_counter()
    kernel = loader.get(op, dict(variant.config), target=str(variant.target))
    milliseconds = (time.perf_counter() - start) * 1000
    assert kernel.artifact.key == variant.key, f"{op}: asked for {variant.config}, got {kernel.config}"
    try:
        outcome = launch(op, kernel, variant)
    except NoCudaDevice:
        outcome = "no CUDA device"
    config = " ".join(f"{k}={v}" for k, v in variant.config.items())
    print(f"  {op:<8} {variant.target!s:<8} {config:<58} opened in {milliseconds:6.2f} ms  {outcome}")
    return outcome


def launch(op: str, kernel: Any, variant: Any) -> str:
    """Call the kernel. Without a device the arguments do not matter: there is nothing to look at them."""
    capability = device_capability()
    if capability is None:
        kernel(*(None for _ in variant.signature.passed))
        raise SystemExit(f"{op}: the call returned on a machine without a CUDA device")
    if not variant.target.runs_on(capability):
        return f"not launched: this GPU is {capability}"
    return f"correct, largest error {error_of(op, kernel, variant):.1e}"


def device_capability() -> Any:
    """The capability of the current device, or None where there is none."""
    try:
        import torch
    except ImportError:
        from ctypes.util import find_library

        if find_library("cuda"):
            raise SystemExit("there is a CUDA driver here and no torch: pip install torch, to launch") from None
        return None
    if not torch.cuda.is_available():
        return None
    from precast.loader.contract.format.target import Capability

    return Capability(*torch.cuda.get_device_capability())


def error_of(op: str, kernel: Any, variant: Any) -> float:
    """Launch on fresh random inputs into poisoned outputs, and compare with float64."""
    import torch

    if op not in REFERENCES:
        raise SystemExit(f"the demo does not know {op}: add its reference to {__file__}")
    config = variant.config
    dtype = getattr(torch, config["dtype"])
    hidden = config.get("hidden") or config.get("width") or 4096
    shape = (33, 2 * hidden) if op == "silu_and_mul_fp8" else (33, hidden)
    x = torch.randn(shape, dtype=dtype, device="cuda")
    found, expected = REFERENCES[op](kernel, x, config)
    allowed = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    if op in ("quantize_fp8", "silu_and_mul_fp8"):
        allowed = 0.07  # of float8, whose steps are a sixteenth
    torch.testing.assert_close(found.double(), expected, rtol=allowed, atol=allowed)
    return float((found.double() - expected).abs().max())


def poisoned(*shape: int, like: Any) -> Any:
    """An output that holds NaN."""
    import torch

    return torch.full(shape, float("nan"), dtype=like.dtype, device=like.device)


def scaled(kernel: Any, x: Any, config: Any) -> Any:
    out = poisoned(x.numel(), like=x)
    kernel(x.flatten(), out, FACTOR)
    return out, x.flatten().double() * FACTOR


def added(kernel: Any, x: Any, config: Any) -> Any:
    out, y = poisoned(x.numel(), like=x), x.flatten().flip(0)
    kernel(x.flatten(), y, out)
    return out, x.flatten().double() + y.double()


def applied(kernel: Any, x: Any, config: Any) -> Any:
    import torch

    out = poisoned(x.numel(), like=x)
    kernel(x.flatten(), out)
    return out, getattr(torch.nn.functional, config["function"])(x.flatten().double())


def normed(kernel: Any, x: Any, config: Any) -> Any:
    import torch

    weight, out = torch.randn_like(x[0]), poisoned(*x.shape, like=x)
    kernel(x, weight, out, EPS)
    exact = x.double()
    return out, exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPS) * weight.double()


def layer_normed(kernel: Any, x: Any, config: Any) -> Any:
    import torch

    weight, bias, out = torch.randn_like(x[0]), torch.randn_like(x[0]), poisoned(*x.shape, like=x)
    kernel(x, weight, bias, out, EPS)
    return out, torch.nn.functional.layer_norm(x.double(), x.shape[1:], weight.double(), bias.double(), EPS)


def softmaxed(kernel: Any, x: Any, config: Any) -> Any:
    out = poisoned(*x.shape, like=x)
    kernel(x, out)
    return out, x.double().softmax(-1)


def reduced(kernel: Any, x: Any, config: Any) -> Any:
    function = config["function"]
    out = poisoned(len(x), like=x) if function != "argmax" else x[:, 0].long().fill_(-1)
    kernel(x, out)
    found = getattr(x.double(), "amax" if function == "max" else function)(-1)
    return out, found.double()


def quantized(kernel: Any, x: Any, config: Any) -> Any:
    """The values that stand for those of ``x``."""
    import torch

    blocks = config.get("block", 128) == 128
    columns = config["width"]
    out = torch.empty(len(x), columns, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.full((columns // 128, len(x)) if blocks else (len(x),), float("nan"), device=x.device)
    kernel(x, out, scale)
    exact = x.double()
    if columns < x.shape[1]:
        exact = torch.nn.functional.silu(exact[:, :columns]) * exact[:, columns:]
    by_column = scale.T.repeat_interleave(128, dim=1) if blocks else scale[:, None]
    return out.double() * by_column, exact


def dequantized(kernel: Any, x: Any, config: Any) -> Any:
    import torch

    stored, out = x.to(torch.float8_e4m3fn), poisoned(*x.shape, like=x)
    blocks = config["block"] == 128
    scale = torch.rand((x.shape[1] // 128, len(x)) if blocks else (len(x),), device=x.device)
    kernel(stored, scale, out)
    by_column = scale.T.repeat_interleave(128, dim=1) if blocks else scale[:, None]
    return out, stored.double() * by_column.double()


REFERENCES = {
    "scale": scaled, "add": added, "apply": applied, "rmsnorm": normed, "layernorm": layer_normed, "softmax": softmaxed,
    "reduce": reduced, "quantize_fp8": quantized, "silu_and_mul_fp8": quantized, "dequantize_fp8": dequantized,
}  # fmt: skip
"""What calls a kernel of an op, and gives what it found and what is expected."""


if __name__ == "__main__":
    sys.exit(main())
