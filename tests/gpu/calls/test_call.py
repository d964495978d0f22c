"""The call path on a device: without tvm_ffi, on the caller's stream, on the tensors' device, from many threads."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from precast import loader
from precast.loader import session
from precast.loader.launch.ffi import entry
from precast.loader.launch.kernel import Kernel


def scale(dtype: str = "float32") -> Any:
    return loader.get("scale", {"dtype": dtype})


def through_tvm_ffi(kernel: Any) -> Kernel:
    """The same variant, called by tvm_ffi."""
    cache = next(f.cache for f in loader.caches() if f.cache and kernel.op in f.cache.index.ops)
    artifact = kernel.artifact
    return Kernel(
        kernel.op,
        artifact,
        entry(session.default.opener.libraries.load(cache, artifact), artifact.symbol),
        kernel._machine,
    )


def test_the_cache_has_a_call_path() -> None:
    assert type(scale()) is not Kernel


def test_a_process_that_launches_needs_no_tvm_ffi() -> None:
    """Every plain argument, a wrong one, and a graph: nothing of it imports the Python package."""
    script = """
import json, sys, torch
from precast import loader
kernel = loader.get("scale", {"dtype": torch.float32})
x = torch.randn(1000, device="cuda"); y = torch.empty_like(x)
kernel(x, y, 3); torch.testing.assert_close(y, 3 * x, rtol=0, atol=0)
kernel(torch.nn.Parameter(x), out=y, factor=2.5); torch.testing.assert_close(y, 2.5 * x, rtol=0, atol=0)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): kernel(x, y, 7.0)
graph.replay(); torch.testing.assert_close(y, 7 * x, rtol=0, atol=0)
try: kernel(x, y.cpu(), 1.0)
except ValueError as error: text = str(error)
print(json.dumps(["tvm_ffi" in sys.modules, text]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    imported, text = json.loads(done.stdout.splitlines()[-1])
    assert not imported
    assert "argument #1 (out)" in text and "device_type=cuda" in text


def test_the_same_errors_either_way() -> None:
    import torch

    fast = loader.get("rmsnorm", {"dtype": torch.bfloat16, "hidden": 4096})
    plain = through_tvm_ffi(fast)
    x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    weight, out = torch.randn(4096, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)
    flat = torch.empty(64 * 4096 + 8, device="cuda", dtype=x.dtype)
    calls: list[tuple[Any, ...]] = [
        (), (x,), (x, weight, out), (x.float(), weight, out, 1e-6), (x, weight[:-1], out, 1e-6),
        (x[0], weight, out, 1.0), (x, weight, out[:63], 1.0), (x, weight.cpu(), out, 1.0),
        (x, weight, flat[1:-7].view(64, 4096), 1.0),
        (x, weight, out.t().contiguous().t(), 1.0), (x, weight, out, "small"), (x, None, out, 1.0), (x, weight, out, x),
        ((x, weight), out, 1.0, 1), (1, 2, 3, 4), (x, weight, out, 2**80),
    ]  # fmt: skip
    for args in calls:
        texts = []
        for kernel in (fast, plain):
            with pytest.raises((TypeError, ValueError, RuntimeError, OverflowError)) as caught:
                kernel(*args)
            texts.append((type(caught.value), str(caught.value)))
        assert texts[0] == texts[1], args
    fast(x, weight, out, 1e-6)


def test_streams_of_many_threads() -> None:
    """Each thread has a stream of its own, and fills its input there after a wait; a wrong stream reads old data."""
    import torch

    kernel = scale()
    faults: list[int] = []

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        x = torch.zeros(1 << 16, device="cuda")
        y = torch.zeros_like(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for i in range(50):
                torch.cuda._sleep(200_000)
                x.fill_(number * 1000 + i)
                kernel(x, y, 2.0)
                if i % 10 == 0:
                    stream.synchronize()
                    if not bool((y == 2 * (number * 1000 + i)).all()):
                        faults.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_a_call_runs_on_its_tensors_device_and_leaves_the_current_one() -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU: this needs two of one host")
    kernel = scale()
    for device in (1, 0, 1, 0):
        x = torch.randn(1 << 20, device=f"cuda:{device}")
        y = torch.empty_like(x)
        for current in (0, 1):
            with torch.cuda.device(current):
                kernel(x, y, 3.0)
                assert torch.cuda.current_device() == current
        torch.cuda.synchronize(device)
        torch.testing.assert_close(y, 3 * x, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"argument #1 \(out\).*x.device.index"):
        kernel(torch.zeros(8, device="cuda:0"), torch.zeros(8, device="cuda:1"), 1.0)


def test_tensors_from_elsewhere() -> None:
    """Anything that speaks DLPack: here tvm_ffi's own tensors, and views that torch makes."""
    import torch
    import tvm_ffi

    kernel = scale()
    x, y = torch.randn(4096, device="cuda"), torch.empty(4096, device="cuda")
    kernel(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 2.0)
    torch.cuda.synchronize()
    torch.testing.assert_close(y, 2 * x, rtol=0, atol=0)
    kernel(x.view(64, 64)[8], y.view(64, 64)[8], 5.0)
    torch.cuda.synchronize()
    torch.testing.assert_close(y[512:576], 5 * x[512:576], rtol=0, atol=0)
