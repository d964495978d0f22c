"""What the loader asks of a GPU's driver, and the choice that follows: for a kit with a cache of assumptions.yaml."""

from __future__ import annotations

from typing import Any

import pytest

from precast import loader
from precast.loader import session
from precast.loader.machine.driver import NoDriver
from precast.loader.machine.machine import Query
from precast.loader.resolve.choose import Accepted

CONFIG = {"dtype": "bfloat16", "out_dtype": "bfloat16", "tile": [128, 256], "cluster": [2, 1]}
SIZES = (8192, 6144, 4096)  # m, n, k: 768 tiles, some for each SM
# What the driver 580 counts on an H200, of which one may fit a few clusters of four and more blocks more than another.
H200 = {1: 132, 2: 66, 4: 30, 8: 15, 16: 7}


@pytest.fixture(autouse=True)
def gpu() -> Any:
    """Torch's properties of the current device."""
    try:
        session.default.machines.driver.get()
    except NoDriver as reason:
        pytest.skip(f"no CUDA device: {reason}")
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device())


@pytest.fixture
def ask() -> Query:
    found = session.default.machines.on().query
    assert found is not None
    return found


def test_the_facts_are_those_that_torch_tells(gpu: Any, ask: Query) -> None:

    expected = {
        "name": gpu.name,
        "multiprocessor_count": gpu.multi_processor_count,
        "total_memory": gpu.total_memory,
        "compute_capability_major": gpu.major,
        "compute_capability_minor": gpu.minor,
        "l2_cache_size": gpu.L2_cache_size,
        "max_threads_per_multiprocessor": gpu.max_threads_per_multi_processor,
        "max_shared_memory_per_block_optin": gpu.shared_memory_per_block_optin,
        "max_registers_per_multiprocessor": gpu.regs_per_multiprocessor,
        "warp_size": gpu.warp_size,
        "max_active_clusters_1": gpu.multi_processor_count,
    }
    assert {name: ask(name) for name in expected} == expected


def test_the_attributes_are_those_that_cuda_python_tells(ask: Query) -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    import torch

    from precast.loader.machine.facts import ATTRIBUTES

    device = bindings.cuDeviceGet(torch.cuda.current_device())[1]
    compared = 0
    for attribute in bindings.CUdevice_attribute:
        name = attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_").lower()
        code, value = bindings.cuDeviceGetAttribute(attribute, device)
        if name in ATTRIBUTES and code == bindings.CUresult.CUDA_SUCCESS:
            assert ask(name) == value, name
            compared += 1
    assert compared > 100


def test_the_clusters_of_an_h200(gpu: Any, ask: Query) -> None:
    counted = {size: ask(f"max_active_clusters_{size}") for size in H200}
    print(counted)
    if gpu.name != "NVIDIA H200":
        pytest.skip(f"the numbers are those of an H200, and this is {gpu.name}")
    assert {size: counted[size] for size in (1, 2)} == {1: 132, 2: 66}
    for size, expected in H200.items():
        count = counted[size]
        assert isinstance(count, int) and abs(count - expected) <= 2, size


def accepted() -> tuple[Accepted, ...]:
    if not any(found.name == "assumptions" for found in loader.caches()):
        pytest.skip("no cache of tests/gpu/assumptions.yaml is installed")
    return tuple(a for a in loader.explain("gemm", CONFIG).accepted if a.candidate.cache == "assumptions")


def built_for(one: Accepted) -> Any:
    return one.candidate.artifact.provenance["profile"]


def test_the_artifact_for_this_gpu_is_chosen_and_both_are_right(gpu: Any) -> None:
    """The time of each is printed. Which is faster is not for a test to say."""
    import torch

    if gpu.name != "NVIDIA H200":
        pytest.skip(f"the cache is for an H200 and an H20, and this is {gpu.name}")
    both = accepted()
    print(loader.explain("gemm", CONFIG))
    assert [built_for(one) for one in both] == ["H200", "H20"]
    assert both[0].reservation == ""
    assert "max_active_clusters_2 is 39, this one's is 66, which may cost speed" in both[1].reservation
    m, n, k = SIZES
    a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16().T
    expected = a @ b
    for one in both:
        cache = loader.caches()[one.candidate.source.precedence].cache
        assert cache is not None
        kernel = session.default.opener.open(cache, "gemm", one.candidate.artifact)
        out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        kernel(a, b, out)
        torch.testing.assert_close(out, expected, rtol=1.6e-2, atol=1e-1)
        times = []
        for _ in range(20):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            kernel(a, b, out)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        print(f"built for an {built_for(one)}: {sorted(times)[10] * 1e3:.1f} us, the median of 20")
