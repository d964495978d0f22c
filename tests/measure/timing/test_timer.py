"""The clock of kernels, on a GPU that is played: what runs between which events, and on which stream."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from precast.measure.timing import ceilings, timer


class Gpu:
    """Time that passes as kernels run; a graph holds what was launched while it was captured."""

    def __init__(self) -> None:
        self.now = 0.0  # microseconds
        self.capturing: list[Callable[[], None]] | None = None
        self.log: list[str] = []
        self.stream = "default"
        self.pending = 0  # what other streams may not have seen yet

    def launch(self, name: str, us: float) -> None:
        def run() -> None:
            self.now += us
            self.log.append(name)

        if self.capturing is not None:
            self.capturing.append(run)
        else:
            run()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """In place of torch.cuda; the buffer that is written between launches is part of it."""
    device = Gpu()

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            assert device.capturing is None
            self.at = device.now
            device.log.append("|")

        def elapsed_time(self, other: Event) -> float:
            return (other.at - self.at) / 1e3

    class Graph:
        def capture_begin(self) -> None:
            assert device.stream == "side", "what is captured must not be on the default stream"
            assert not gc.isenabled(), "what is freed during a capture spoils it"
            self.runs: list[Callable[[], None]] = []
            device.capturing = self.runs

        def capture_end(self) -> None:
            device.capturing = None

        def replay(self) -> None:
            assert device.capturing is None and device.stream == "default"
            for run in self.runs:
                run()

    @contextlib.contextmanager
    def use(stream: str) -> Iterator[None]:
        device.stream = stream
        yield
        device.stream = "default"

    class Flush:
        def zero_(self) -> None:
            device.launch("flush", 60.0)

    def synchronize(where: Any) -> None:
        assert device.capturing is None
        device.log.append("wait")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda where: "side")
    monkeypatch.setattr(torch.cuda, "stream", use)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)

    class Others:
        def sum(self) -> None:
            device.launch("read", 50.0)

    monkeypatch.setattr(timer, "_flush", lambda where: Flush())
    monkeypatch.setattr(timer, "_read", lambda where: Others())
    yield device


def test_each_cold_launch_stands_alone_between_its_events_behind_a_flush(gpu: Gpu) -> None:
    found = timer.cold([lambda: gpu.launch("a", 5.0), lambda: gpu.launch("b", 7.0)], "cuda", launches=3)
    assert found == [pytest.approx([5.0] * 3), pytest.approx([7.0] * 3)]
    turn = ["flush", "|", "a", "|", "flush", "|", "b", "|"]
    assert gpu.log[-1 - 3 * len(turn) :] == [*turn * 3, "wait"]


def test_what_was_written_is_in_memory_before_a_launch_where_that_is_asked(gpu: Gpu) -> None:
    assert timer.cold([lambda: gpu.launch("a", 5.0)], "cuda", launches=2, written_back=True) == [[5.0, 5.0]]
    assert gpu.log[-11:] == [*["flush", "read", "|", "a", "|"] * 2, "wait"]


def test_what_cannot_be_captured_is_timed_as_it_is_launched(gpu: Gpu) -> None:
    def run() -> None:
        assert gpu.capturing is None
        gpu.launch("kernel", 7.0)

    assert timer.cold([run], "cuda", launches=2, graphs=False) == [[pytest.approx(7.0)] * 2]
    assert gpu.log[-9:] == [*["flush", "|", "kernel", "|"] * 2, "wait"]


def test_the_inputs_are_there_before_another_stream_reads_them(gpu: Gpu) -> None:
    timer.captured(lambda: gpu.launch("a", 5.0), "cuda")
    assert gpu.log[0] == "wait" and gpu.log.count("a") == 4  # three to warm up, and the first replay


def test_warm_launches_are_back_to_back_in_one_graph(gpu: Gpu) -> None:
    assert timer.warm(lambda: gpu.launch("a", 5.0), "cuda", launches=4, repeats=2) == pytest.approx([5.0, 5.0])
    assert gpu.log[-13:] == [*["|", *["a"] * 4, "|"] * 2, "wait"]
    assert "flush" not in gpu.log


def test_a_call_on_the_host_never_waits_inside_a_batch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def call() -> None:
        clock[0] += 4e-6 if len(gpu.log) > 30 else 9e-6  # the first batch is disturbed
        gpu.launch("a", 1.0)

    monkeypatch.setattr("precast.measure.timing.timer.time.perf_counter", lambda: clock[0])
    assert timer.host(call, "cuda", calls=20, batches=3) == pytest.approx(4.0)
    assert gpu.log == ["a", *["wait", *["a"] * 20] * 3, "wait"]


def test_what_cannot_be_captured_raises_its_own_error_and_ends_the_capture(gpu: Gpu) -> None:
    calls = []

    def run() -> None:
        calls.append(1)
        if len(calls) > 3:
            raise ValueError("not in a graph")

    with pytest.raises(ValueError, match="not in a graph"):
        timer.captured(run, "cuda")
    assert gpu.capturing is None and gc.isenabled()


def test_a_dtype_without_a_product_is_told_and_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Facts:
        L2_cache_size, total_memory = 50 << 20, 1 << 16
        uuid = "1234"

    def rate(dtype: str, side: int, zero: bool, device: Any) -> float:
        if dtype == "int8":
            raise RuntimeError("_int_mm is not there\nsecond line")
        return {False: 600.0, True: 700.0}[zero] + side / 8192

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Facts)
    monkeypatch.setattr(ceilings, "_rate", rate)
    monkeypatch.setattr(ceilings, "_bandwidths", lambda device: {"copy": 4100.0, "sum": 4200.0})
    found = ceilings.measured(["bfloat16", "bfloat16", "int8", "float4_e2m1fn"])
    assert (found.bandwidth, found.copy, found.rates) == (4200.0, 4100.0, {"bfloat16": 701.0})
    assert (found.l2, found.clocks) == (50 << 20, {})
    assert found.notes == (
        "there is no rate of int8: RuntimeError: _int_mm is not there",
        "there is no rate of float4_e2m1fn: torch has no plain product of it",
    )


def test_bandwidth_and_rates_are_of_what_is_moved_and_multiplied(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with 10 microseconds a run: a copy moves twice the bytes of a fill."""

    class Facts:
        total_memory = 8 << 20

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Facts)
    monkeypatch.setattr(ceilings, "_least", lambda run, device: (run(), 10.0)[1])
    once = (1 << 20) / 10.0 / 1e3
    assert ceilings._bandwidths("cpu") == pytest.approx({"copy": 2 * once, "sum": once, "fill": once})
    for dtype in ("float32", "tfloat32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "float64"):
        for zero in (False, True):
            assert ceilings._rate(dtype, 64, zero, "cpu") == pytest.approx(2 * 64**3 / 10.0 / 1e6), dtype


@pytest.mark.parametrize("dtype", ["float32", "float8_e4m3fn", "int8"])
def test_torchs_own_product_is_of_the_transpose(dtype: str) -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-2, 3, (32, 32), generator=generator).float() for _ in range(2))
    stored = getattr(torch, dtype)
    found = ceilings.product(dtype, a.to(stored), b.to(stored))()
    torch.testing.assert_close(found.float(), a @ b.T)
