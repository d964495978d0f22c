"""Two GPUs in one process: the same kernel on both, interleaved, from one thread and from two."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from precast import loader

FACTOR = 1.5


def devices() -> list[int]:
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip(f"this machine has {count} GPU: two are needed")
    return [0, 1]


def tensors(device: int, count: int = 1 << 20) -> tuple[Any, Any]:
    import torch

    x = torch.randn(count, device=f"cuda:{device}")
    return x, torch.full_like(x, float("nan"))


def check(x: Any, y: Any, factor: float) -> None:
    import torch

    torch.testing.assert_close(y, x * factor, rtol=1e-6, atol=1e-6)


def test_one_kernel_on_both_interleaved() -> None:
    """One kernel object; each call goes to its tensors' device, whichever is current, which stays current."""
    import torch

    both = devices()
    kernel = loader.get("scale", {"dtype": torch.float32})
    data = {d: tensors(d) for d in both}
    for current in both:
        torch.cuda.set_device(current)
        for n in range(50):
            device = both[n % 2]
            kernel(*data[device], FACTOR + n)
            assert torch.cuda.current_device() == current
        for device in both:
            torch.cuda.synchronize(device)
            last = 49 if device == both[1] else 48
            check(*data[device], FACTOR + last)
    torch.cuda.set_device(0)


def test_the_first_call_on_the_second_device() -> None:
    """Nothing was launched on device 1 in a fresh process before: Triton's and AOTInductor's packages failed here."""
    import subprocess
    import sys

    devices()
    code = (
        "import torch\nfrom precast import loader\n"
        "x = torch.randn(1000, device='cuda:1'); y = torch.empty_like(x)\n"
        "loader.get('scale', {'dtype': torch.float32}, device=1)(x, y, 3.0)\n"
        "torch.cuda.synchronize(1); torch.testing.assert_close(y, x * 3)\n"
        "x = torch.randn(1000, device='cuda:0'); y = torch.empty_like(x)\n"
        "loader.get('scale', {'dtype': torch.float32}, device=0)(x, y, 3.0)\n"
        "torch.cuda.synchronize(0); torch.testing.assert_close(y, x * 3)\n"
        "assert torch.cuda.current_device() == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_on_its_own_stream() -> None:
    """The current stream of the tensors' device counts, not that of the current device."""
    import torch

    both = devices()
    kernel = loader.get("scale", {"dtype": torch.float32})
    for device in both:
        x, y = tensors(device)
        fresh = torch.randn_like(x)
        stream = torch.cuda.Stream(device)
        torch.cuda.synchronize(device)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            x.copy_(fresh)
            kernel(x, y, FACTOR)
        stream.synchronize()
        check(fresh, y, FACTOR)


def test_two_threads() -> None:
    import torch

    both, failures = devices(), []
    kernel = loader.get("scale", {"dtype": torch.float32})

    def work(device: int) -> None:
        try:
            torch.cuda.set_device(device)
            for n in range(100):
                x, y = tensors(device, 10_000)
                kernel(x, y, FACTOR + n)
                torch.cuda.synchronize(device)
                check(x, y, FACTOR + n)
        except BaseException as error:
            failures.append((device, error))

    threads = [threading.Thread(target=work, args=(d,)) for d in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_tensors_of_two_devices_in_one_call() -> None:
    import torch

    one, two = devices()
    kernel = loader.get("scale", {"dtype": torch.float32})
    x, _ = tensors(one)
    _, y = tensors(two)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        kernel(x, y, FACTOR)
    torch.cuda.synchronize()
    x, y = tensors(one)
    kernel(x, y, FACTOR)
    check(x, y, FACTOR)


def test_preload_for_each() -> None:
    for device in devices():
        done = loader.preload([("scale", {"dtype": "float32"})], device=device)
        assert done.ready, str(done)
