"""The declarations of this project's kernels: inputs, references against torch's own, refusals, costs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from precast.kernels import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.own.elementwise.scale import scale
from precast.kernels.own.norms.rmsnorm import rmsnorm
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.compare import compare

SM90 = Target.parse("sm_90a")
DTYPES = ("float16", "bfloat16", "float32")


def full(function: Any, **config: Any) -> dict[str, Any]:
    return complete(keys_of(function), config, op=function.__name__)


def cases() -> list[Any]:
    configs: list[tuple[Any, dict[str, Any]]] = [(scale, full(scale, dtype=d)) for d in DTYPES]
    configs += [(rmsnorm, full(rmsnorm, dtype=d, hidden=h)) for d, h in itertools.product(DTYPES, (8, 136, 4096))]
    return [pytest.param(f, c, id="-".join(map(str, (f.__name__, *c.values())))) for f, c in configs]


def naive(op: str, inputs: dict[str, Any]) -> torch.Tensor:
    if op == "scale":
        return inputs["x"].double() * inputs["factor"]
    x = inputs["x"].double()
    return torch.nn.functional.rms_norm(x, x.shape[-1:], inputs["weight"].double(), inputs["eps"])


@pytest.mark.parametrize(("function", "config"), cases())
def test_references_agree_with_torch_and_inputs_with_the_signature(function: Any, config: dict[str, Any]) -> None:
    declaration = declaration_of(function)
    assert declaration.verifiable and declaration.refusal(config, SM90) is None
    assert declaration.problems and declaration.inputs and declaration.reference and declaration.tolerance
    assert declaration.cost is not None
    *small, large = declaration.problems(config)
    assert declaration.cost(config, large).bytes >= 1 << 27, "the last problem is large enough to measure bandwidth"
    for seed, problem in enumerate(small):
        inputs = declaration.inputs(config, problem, device="cpu", seed=seed)
        expected = declaration.reference(config, inputs)
        assert tuple(expected) == declaration.outputs
        assert expected["out"].dtype == torch.float64 and expected["out"].shape == inputs["out"].shape
        torch.testing.assert_close(expected["out"], naive(declaration.op, inputs), rtol=1e-6, atol=1e-12)
        for tensor in (v for v in inputs.values() if isinstance(v, torch.Tensor)):
            assert tensor.dtype == getattr(torch, config["dtype"])
            assert tensor.stride(-1) == 1 and all(s * tensor.itemsize % 16 == 0 for s in tensor.stride()[:-1])
        again = declaration.inputs(config, problem, device="cpu", seed=seed)
        other = declaration.inputs(config, problem, device="cpu", seed=seed + 1)
        assert torch.equal(inputs["x"], again["x"])
        assert inputs["x"].numel() < 8 or not torch.equal(inputs["x"], other["x"])


@pytest.mark.parametrize(("function", "config"), cases())
def test_the_tolerance_takes_a_correctly_rounded_result_and_no_worse_one(function: Any, config: dict[str, Any]) -> None:
    declaration = declaration_of(function)
    assert declaration.problems and declaration.inputs and declaration.reference and declaration.tolerance
    inputs = declaration.inputs(config, declaration.problems(config)[-2], device="cpu", seed=3)
    expected = declaration.reference(config, inputs)["out"]
    allowed = declaration.tolerance(config)

    def error(result: torch.Tensor) -> float:
        return compare(result, expected, allowed).error

    rounded = expected.to(inputs["out"].dtype)
    assert error(rounded) < 0.7, "a right result stands well within the bound"
    assert error(expected.float().mul(1 + 2.0**-24).to(rounded.dtype)) < 0.7
    bits = rounded.view(torch.int32 if rounded.itemsize == 4 else torch.int16)
    if rounded.itemsize == 2:
        assert error((bits + 1).view(rounded.dtype)) > 1.3, "one unit in the last place"
    assert error((rounded.double() * (1 + 1.5 * torch.finfo(rounded.dtype).eps + 1e-5)).to(rounded.dtype)) > 1.0
    assert error(torch.full_like(rounded, float("nan"))) > 1.0


def test_sums_in_float32_stay_within_their_bound() -> None:
    """In the worst order, one after the other, by lanes and warps as the kernel does it, with values of one sign."""
    config = full(rmsnorm, dtype="float32", hidden=8192, threads=256)
    declaration = declaration_of(rmsnorm)
    assert declaration.inputs and declaration.reference and declaration.tolerance
    inputs = declaration.inputs(config, {"rows": 64}, device="cpu", seed=5)
    x = inputs["x"]
    squares = (x * x).view(64, 8, 256, 4).permute(0, 2, 1, 3).reshape(64, 256, 32)
    lanes = torch.zeros(64, 256)
    for i in range(32):
        lanes = lanes + squares[:, :, i]
    total = torch.zeros(64)
    for lane in range(256):  # many more additions than the tree of a warp has
        total = total + lanes[:, lane]
    factor = (total * torch.tensor(1 / 8192, dtype=torch.float32) + 1e-6).rsqrt()
    result = compare(
        x * factor[:, None] * inputs["weight"],
        declaration.reference(config, inputs)["out"],
        declaration.tolerance(config),
    )
    assert 0.0 < result.error < 1.0, result


@pytest.mark.parametrize(
    ("function", "config", "reason"),
    [
        (scale, {"dtype": "int8"}, "use one of float32, float16, bfloat16"),
        (scale, {"dtype": "float32", "threads": 96}, "threads is 96: use one of"),
        (scale, {"dtype": "float32", "unroll": 3}, "unroll is 3: use one of"),
        (rmsnorm, {"dtype": "float64", "hidden": 4096}, "use one of float32, float16, bfloat16"),
        (rmsnorm, {"dtype": "bfloat16", "hidden": 4100}, "use 4096 or 4104"),
        (rmsnorm, {"dtype": "float32", "hidden": 4101}, "use 4100 or 4104"),
        (rmsnorm, {"dtype": "float16", "hidden": 4}, "hidden is 4: use 8 or a multiple"),
        (rmsnorm, {"dtype": "float16", "hidden": 0}, "hidden is 0: use 8 or a multiple"),
        (rmsnorm, {"dtype": "float16", "hidden": -8}, "hidden is -8: use 8 or a multiple"),
        (rmsnorm, {"dtype": "float16", "hidden": 64, "threads": 100}, "threads is 100: use one of"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_can(function: Any, config: dict[str, Any], reason: str) -> None:
    assert reason in str(declaration_of(function).refusal(full(function, **config), SM90))
    assert "sm_80+" in str(declaration_of(function).refusal(full(function, **config), Target.parse("sm_75")))
