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
    return variant.target, list(variant.config.items())


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
    from precast.loader.format.target import Capability

    return Capability(*torch.cuda.get_device_capability())


def error_of(op: str, kernel: Any, variant: Any) -> float:
    """Launch on fresh random inputs into a poisoned output, and compare with float64."""
    import torch

    dtype = getattr(torch, variant.config["dtype"])
    rows, hidden = 33, variant.config.get("hidden", 4096)
    x = torch.randn(rows, hidden, dtype=dtype, device="cuda")
    out = torch.full_like(x, float("nan"))
    if op == "scale":
        x, out = x.flatten(), out.flatten()
        kernel(x, out, FACTOR)
        expected = x.double() * FACTOR
    elif op == "rmsnorm":
        weight = torch.randn(hidden, dtype=dtype, device="cuda")
        kernel(x, weight, out, EPS)
        exact = x.double()
        expected = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPS) * weight.double()
    else:
        raise SystemExit(f"the demo does not know {op}: add its reference to {__file__}")
    allowed = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=allowed, atol=allowed)
    return float((out.double() - expected).abs().max())


if __name__ == "__main__":
    sys.exit(main())
