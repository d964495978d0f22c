"""Launches in other contexts than a device's primary one: a kernel's function is that of one context."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest

from precast.loader import session
from precast.loader.launch.kernel import Kernel
from precast.loader.resolve.cache import Cache
from tests.gpu import variants

COUNT = 1 << 16


def kernels() -> list[Any]:
    """``scale`` of float32: an object, and a cubin where the kit has one."""
    found = {}
    for op, variant in reversed(variants.all_runnable()):
        if op == "scale" and variant.artifact.config["dtype"] == "float32":
            found[variant.artifact.kind] = (op, variant)
    return [found[kind] for kind in sorted(found)]


def opened(case: Any) -> Kernel:
    """A kernel that nothing was launched of."""
    from precast import loader

    op, variant = case
    cache = loader.caches()[variant.source.precedence].cache
    assert isinstance(cache, Cache)
    return type(session.default.opener)(session.default.opener.machine).open(cache, op, variant.artifact)


pytestmark = pytest.mark.parametrize("case", kernels(), ids=variants.name)


def right(kernel: Kernel, stream: Any = None) -> None:
    """Launch once, on a stream, and compare."""
    import torch

    x, y = torch.randn(COUNT, device="cuda"), torch.full((COUNT,), float("nan"), device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream or torch.cuda.current_stream()):
        kernel(x, y, 2.0)
    torch.cuda.synchronize()
    assert torch.equal(y, x * 2.0)


def test_a_green_context(case: Any) -> None:
    """Its streams have some of the SMs. The kernel is launched there, in the primary context, and there again."""
    from torch.cuda.green_contexts import SUPPORTED, GreenContext

    if not SUPPORTED:
        pytest.skip("this torch has no green contexts")
    kernel, green = opened(case), GreenContext.create(num_sms=16, device_id=0)
    for inside in (False, True, False, True, True):
        if inside:
            green.set_context()
        try:
            right(kernel)
        finally:
            if inside:
                green.pop_context()


def test_a_green_context_first(case: Any) -> None:
    from torch.cuda.green_contexts import SUPPORTED, GreenContext

    if not SUPPORTED:
        pytest.skip("this torch has no green contexts")
    kernel, green = opened(case), GreenContext.create(num_sms=16, device_id=0)
    green.set_context()
    try:
        right(kernel)
        right(kernel)
    finally:
        green.pop_context()
    right(kernel)
    right(kernel)


class Memory:
    """Numbers in the memory of the current context, as torch takes them."""

    def __init__(self, driver: ctypes.CDLL, values: list[float]) -> None:
        self.driver, self.count = driver, len(values)
        self.address = ctypes.c_uint64()
        checked(driver.cuMemAlloc_v2(ctypes.byref(self.address), 4 * self.count))
        checked(driver.cuMemcpyHtoD_v2(self.address, (ctypes.c_float * self.count)(*values), 4 * self.count))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        data = (self.address.value, False)
        return {"shape": (self.count,), "typestr": "<f4", "data": data, "version": 3, "strides": None}

    def read(self) -> list[float]:
        values = (ctypes.c_float * self.count)()
        checked(self.driver.cuMemcpyDtoH_v2(values, self.address, 4 * self.count))
        return list(values)


def checked(status: int) -> None:
    assert status == 0, f"the driver says {status}"


def in_a_context(work: Callable[[ctypes.CDLL], None]) -> None:
    """Do something in a thread with a context of its own, which is destroyed afterwards."""
    driver, errors = ctypes.CDLL("libcuda.so.1"), []

    def run() -> None:
        context, device = ctypes.c_void_p(), ctypes.c_int()
        try:
            checked(driver.cuDeviceGet(ctypes.byref(device), 0))
            checked(driver.cuCtxCreate_v2(ctypes.byref(context), 0, device))
            work(driver)
            checked(driver.cuCtxDestroy_v2(context))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def test_contexts_of_their_own_beside_the_primary_one(case: Any) -> None:
    """Memory of a context is for kernels in it alone. The second context may get the address of the first."""
    import torch

    kernel, values = opened(case), [float(i) for i in range(512)]

    def work(driver: ctypes.CDLL) -> None:
        before, after = ctypes.c_void_p(), ctypes.c_void_p()
        checked(driver.cuCtxGetCurrent(ctypes.byref(before)))
        held, out = Memory(driver, values), Memory(driver, [0.0] * 512)
        x, y = (torch.as_tensor(each, device="cuda") for each in (held, out))
        checked(driver.cuCtxSetCurrent(before))  # whatever torch has made current
        for factor in (2.0, 3.0):
            kernel(x, y, factor)
            checked(driver.cuCtxSynchronize())
            assert out.read() == [factor * value for value in values]
        checked(driver.cuCtxGetCurrent(ctypes.byref(after)))
        assert after.value == before.value, "the context that was current is current"

    right(kernel)
    for _ in range(3):
        in_a_context(work)
        right(kernel)
