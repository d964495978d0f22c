"""Products of eight-bit numbers: Hopper shortens their sums, and what is lost must be no more than torch loses."""

from __future__ import annotations

import pytest

from precast import loader
from precast.loader.errors import OpNotFound, VariantNotFound


@pytest.mark.parametrize("k", [256, 2048, 8192])
def test_the_error_is_that_of_torch(k: int) -> None:
    import torch

    config = {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16"}
    try:
        kernel = loader.get("gemm", config)
    except (OpNotFound, VariantNotFound) as error:
        pytest.skip(f"no cache with eight-bit products is installed: {type(error).__name__}")
    a, b = (torch.randn(2048, k, device="cuda").mul_(k**-0.25).to(torch.float8_e4m3fn) for _ in range(2))
    exact = a.double() @ b.double().T
    out = torch.full((2048, 2048), float("nan"), device="cuda", dtype=torch.bfloat16)
    kernel(a, b.T, out)
    one = torch.ones((), device="cuda")
    theirs = torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    mine, other = ((x.double() - exact).abs().max().item() for x in (out, theirs))
    print(f"k {k}: largest error {mine:.4f}, torch's {other:.4f}")
    assert mine <= 1.25 * other
