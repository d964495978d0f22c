"""Cubins against objects of the same variants: for a kit with a cache of tests/gpu/both.yaml."""

from __future__ import annotations

from typing import Any

import pytest

from precast import loader
from precast.loader import session
from precast.loader.launch.kernel import Kernel
from precast.measure.checks.verify import verify
from precast.measure.launching.cases import bound
from tests.gpu import variants


def cubins() -> list[Any]:
    return [(op, v) for op, v in variants.all_runnable() if v.artifact.kind == "cubin" and v.artifact.launchable]


CASES = cubins()


def opened(case: Any) -> Kernel:
    op, variant = case
    cache = loader.caches()[variant.source.precedence].cache
    assert cache is not None
    return session.default.opener.open(cache, op, variant.artifact)


def object_of(case: Any) -> Kernel:
    op, variant = case
    kernel = loader.get(op, dict(variant.artifact.config))
    assert kernel.artifact.kind == "object"
    return kernel


if not CASES and variants.all_runnable():
    pytest.skip("the kit has no cubins: put a cache of tests/gpu/both.yaml in it", allow_module_level=True)


@pytest.mark.parametrize("case", CASES, ids=variants.name)
def test_numbers(case: Any) -> None:
    declaration = variants.declared(case[0])
    checks = list(verify(opened(case), declaration, case[1].artifact.config, seed=7, huge=False))
    failed = [str(check) for check in checks if not check.passed]
    assert checks and not failed, "\n".join(failed)


@pytest.mark.parametrize("case", CASES, ids=variants.name)
def test_the_same_bits_as_the_object(case: Any) -> None:
    """Both run the same device code: not one bit may differ, at any problem that the author named."""
    import torch

    declaration, config = variants.declared(case[0]), case[1].artifact.config
    assert declaration.problems and declaration.inputs
    for problem in declaration.problems(config):
        results = []
        for kernel in (opened(case), object_of(case)):
            values = declaration.inputs(config, problem, device="cuda", seed=3)
            bound(kernel, values)()
            results.append([values[name] for name in declaration.outputs if values.get(name) is not None])
        for one, other in zip(*results, strict=True):
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), problem


@pytest.mark.parametrize("case", CASES[:1] + CASES[-1:], ids=variants.name)
def test_streams_and_graphs(case: Any) -> None:
    import torch

    declaration, config = variants.declared(case[0]), case[1].artifact.config
    assert declaration.problems and declaration.inputs
    problem = declaration.problems(config)[-1]
    values = declaration.inputs(config, problem, device="cuda", seed=3)
    name, kernel = declaration.outputs[0], opened(case)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        kernel(*values.values())
        assert not stream.query()
    stream.synchronize()
    expected = values[name].clone()
    values[name].zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*values.values())
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(values[name], expected)


@pytest.mark.parametrize("case", [c for c in CASES if c[0] == "rmsnorm"][:1], ids=variants.name)
def test_the_same_errors_as_the_object(case: Any) -> None:
    import torch

    hidden = case[1].artifact.config["hidden"]
    dtype = getattr(torch, case[1].artifact.config["dtype"])
    x = torch.randn(64, hidden, device="cuda", dtype=dtype)
    weight, out = torch.randn(hidden, device="cuda", dtype=dtype), torch.empty_like(x)
    kernels = [opened(case), object_of(case)]
    for args in (
        (), (x, weight, out), (x.double(), weight, out, 1.0), (x, weight[:-1], out, 1.0), (x[0], weight, out, 1.0),
        (x, weight, out[:63], 1.0), (x, weight.cpu(), out, 1.0), (x, weight, out.t().contiguous().t(), 1.0),
        (x, weight, out, "small"), (x, None, out, 1.0), (x, weight, out, 2**80),
    ):  # fmt: skip
        texts = []
        for kernel in kernels:
            with pytest.raises((TypeError, ValueError, OverflowError)) as caught:  # the last by apache-tvm-ffi 0.1.11
                kernel(*args)
            texts.append((type(caught.value), str(caught.value)))
        assert texts[0] == texts[1]


def test_preload_makes_it_ready() -> None:
    kernel = opened(CASES[0])
    assert kernel.launcher is not None
    kernel.launcher.ready(0)
