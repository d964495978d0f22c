"""Every variant in the wheel, launched without the compiler: right numbers, right stream, right errors."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from precast import loader
from precast.measure.checks.verify import verify
from tests.gpu import variants

CASES = variants.runnable()


def test_there_is_no_compiler_here() -> None:
    if not CASES:
        pytest.skip("the installed caches hold no object for this GPU: build the kit for its target")
    assert importlib.util.find_spec("cutlass") is None


@pytest.mark.parametrize("case", CASES, ids=variants.name)
def test_numbers(case: Any) -> None:
    """Fresh random inputs, poisoned outputs, every problem the kernel's author named."""
    op, variant = case
    kernel = loader.get(op, dict(variant.artifact.config))
    assert kernel.artifact == variant.artifact
    declaration = variants.declared(op)
    if not declaration.verifiable:
        pytest.fail(f"{op} declares no reference to verify with")
    seed = hash_seed(variant.artifact.key)  # problems of more than 2**31 elements: test_verify_wrong.py
    checks = list(verify(kernel, declaration, variant.artifact.config, seed=seed, huge=False))
    assert checks
    failed = [str(check) for check in checks if not check.passed]
    assert not failed, "\n".join(failed)


def hash_seed(key: str) -> int:
    import secrets

    return int(key[:6], 16) + secrets.randbelow(1 << 20)


def scale(count: int = 1 << 20) -> tuple[Any, Any, Any]:
    import torch

    kernel = loader.get("scale", {"dtype": torch.float32})
    return kernel, torch.randn(count, device="cuda"), torch.full((count,), float("nan"), device="cuda")


def test_runs_on_the_callers_stream() -> None:
    """The input is written on a side stream after a long wait: a launch on any other stream reads the old one."""
    import torch

    kernel, x, y = scale()
    fresh = torch.randn_like(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.copy_(fresh)
        kernel(x, y, 2.0)
    assert not stream.query(), "the launch must not wait"
    stream.synchronize()
    torch.testing.assert_close(y, fresh * 2.0, rtol=0, atol=0)


def test_runs_in_a_cuda_graph() -> None:
    import torch

    kernel, x, y = scale()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        kernel(x, y, 3.0)
    side.synchronize()
    y.fill_(float("nan"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, 3.0)
    assert y.isnan().all(), "capture must not run the kernel"
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(y, x * 3.0, rtol=0, atol=0)


def test_rmsnorm_in_a_cuda_graph_first_launch_inside() -> None:
    """A kernel whose first launch is the captured one: whatever it sets up lazily must be legal in a capture."""
    import torch

    kernel = loader.get("rmsnorm", {"dtype": torch.float16, "hidden": 1024, "threads": 256})
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    weight = torch.randn(1024, device="cuda", dtype=torch.float16)
    out = torch.full_like(x, float("nan"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, weight, out, 1e-6)
    graph.replay()
    torch.cuda.synchronize()
    expected = torch.nn.functional.rms_norm(x.float(), (1024,), weight.float(), 1e-6)
    torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=2e-3)


def wrong_arguments() -> list[Any]:
    def cases(torch: Any, x: Any, weight: Any, out: Any) -> dict[str, tuple[tuple[Any, ...], str]]:
        whole = torch.empty(64 * 4096 + 8, device="cuda", dtype=x.dtype)
        return {
            "dtype": ((x.float(), weight, out, 1e-6), "x"),
            "shape": ((x, weight[:4095], out, 1e-6), "weight"),
            "rank": ((x[0], weight, out, 1e-6), "x"),
            "shared dimension": ((x, weight, out[:63], 1e-6), "out"),
            "device": ((x, weight.cpu(), out, 1e-6), "weight"),
            "alignment": ((x, weight, whole[1 : 1 + 64 * 4096].view(64, 4096), 1e-6), "out"),
            "stride": ((x, weight, out.t().contiguous().t(), 1e-6), "out"),
            "type": ((x, weight, out, "small"), "eps"),
            "nothing": ((x, None, out, 1e-6), "weight"),
        }

    return [pytest.param(cases, kind, id=kind) for kind in cases_names()]


def cases_names() -> tuple[str, ...]:
    return ("dtype", "shape", "rank", "shared dimension", "device", "alignment", "stride", "type", "nothing")


@pytest.mark.parametrize(("cases", "kind"), wrong_arguments())
def test_a_bad_call_names_the_argument_and_a_good_one_follows(cases: Any, kind: str) -> None:
    import torch

    kernel = loader.get("rmsnorm", {"dtype": torch.bfloat16, "hidden": 4096})
    x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    out = torch.full_like(x, float("nan"))
    arguments, culprit = cases(torch, x, weight, out)[kind]
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        kernel(*arguments)
    print(f"{kind}: {type(caught.value).__name__}: {caught.value}")
    assert culprit in str(caught.value)
    torch.cuda.synchronize()
    kernel(x, weight, out, 1e-6)
    expected = torch.nn.functional.rms_norm(x.float(), (4096,), weight.float(), 1e-6)
    torch.testing.assert_close(out.float(), expected, rtol=1.6e-2, atol=1.6e-2)


def test_too_few_and_too_many_arguments() -> None:
    kernel, x, y = scale()
    for arguments in ((), (x,), (x, y), (x, y, 1.0, 2.0)):
        with pytest.raises(TypeError):
            kernel(*arguments)
    kernel(x, y, 1.0)
