"""Cubins: launched by their plan. The driver is a stand-in that keeps what it is asked to launch."""

from __future__ import annotations

import ctypes
import platform
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.kernels.authoring.launch_plan import LaunchPlan
from precast.loader.errors import LaunchError
from precast.loader.format.artifact import Artifact
from precast.loader.format.program.host_program import Launch
from precast.loader.format.signature import Argument, Signature, Symbol
from precast.loader.format.target import Capability
from precast.loader.launch import cubin
from precast.loader.launch.cubin import open_cubin
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from tests.helpers.caches import HOST, CacheWriter, Native, artifact
from tests.helpers.exchange import CPU, CUDA, Fake

PLAN = LaunchPlan(
    grid=(("max", ("ceil_div", "x.shape[0]", 8), 1), ("mul", "count", 2), 1),
    block=(128, 1, 1),
    cluster=(1, 2, 1),
    shared=("mul", 1024, "count"),
    parameters=("x", "y", "count", "factor"),
)
SIGNATURE = Signature(
    arguments=(
        Argument(
            name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=("s", 1), alignment=16, device="cuda"
        ),
        Argument(name="y", kind="tensor", dtype="float32", shape=("n",), strides=(1,), device="cuda"),
        Argument(name="count", kind="scalar", dtype="int32"),
        Argument(name="factor", kind="scalar", dtype="float32"),
        Argument(name="stream", kind="env_stream"),
    ),
    symbols={"n": Symbol(dtype="int32"), "s": Symbol(dtype="int64", divisibility=4)},
)  # fmt: skip


class Driver:
    """As much of a driver as a launcher asks."""

    def __init__(self, sizes: tuple[int, ...] = (24, 16, 4, 4)) -> None:
        self.sizes = sizes
        self.loaded: list[bytes] = []
        self.prepared: list[tuple[int, int]] = []
        self.launched: list[tuple[Any, Launch, int, list[bytes]]] = []
        self.entered: list[int] = []
        self.left = 0

    def load(self, code: bytes) -> bytes:
        self.loaded.append(code)
        return code

    def kernel(self, library: Any, name: str) -> str:
        return name

    def parameters(self, kernel: Any, count: int) -> tuple[int, ...]:
        return self.sizes

    def prepare(self, kernel: Any, device: int, shared: int) -> None:
        self.prepared.append((device, shared))

    def enter(self, device: int) -> bool:
        self.entered.append(device)
        return device != 0

    def leave(self) -> None:
        self.left += 1

    def launch(self, kernel: Any, launch: Launch, stream: int, parameters: int) -> None:
        addresses = (ctypes.c_void_p * len(self.sizes)).from_address(parameters)
        found = [ctypes.string_at(a, n) for a, n in zip(addresses, self.sizes, strict=True) if a is not None]
        self.launched.append((kernel, launch, stream, found))


def make(native: Native, folder: Path, plan: LaunchPlan | None = PLAN) -> tuple[Cache, Artifact]:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    code = writer.keep(b"device code")
    made = artifact(code, {}, symbol="kernel_of_it", kind="cubin", host=None)
    program = plan.program(SIGNATURE, "kernel_of_it") if plan else None
    writer.op("op", [replace(made, signature=SIGNATURE, program=program)], keys=())
    cache = Cache(writer.write(folder))
    return cache, cache.op("op").artifacts[0]


@pytest.fixture
def chosen(native: Native, tmp_path: Path) -> tuple[Cache, Artifact]:
    return make(native, tmp_path / "cache")


@pytest.fixture(autouse=True)
def _streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "current_stream", lambda device: 0x50 + device)


def test_it_launches_what_the_plan_says(chosen: tuple[Cache, Artifact]) -> None:
    driver: Any = Driver()
    launch = open_cubin(chosen[0], "op", chosen[1], driver)
    x, y = Fake(1 << 20, (17, 4), strides=(8, 1)), Fake(1 << 21, (17,))
    launch(x, y, 3, 1.5)
    launch(x, y, 2, 2)
    assert driver.loaded == [b"device code"]
    assert driver.prepared == [(0, 3072)], "less shared memory needs no more leave"
    kernel, extent, stream, packed = driver.launched[0]
    assert (kernel, stream) == ("kernel_of_it", 0x50)
    assert extent == Launch((3, 6, 1), (128, 1, 1), (1, 2, 1), 3072)
    assert packed[0] == struct.pack("<Qi4xq", 1 << 20, 17, 8)
    assert packed[1][:12] == struct.pack("<Qi", 1 << 21, 17)
    assert packed[2:] == [struct.pack("<i", 3), struct.pack("<f", 1.5)]
    assert driver.launched[1][3][3] == struct.pack("<f", 2.0)


def test_each_call_runs_on_its_tensors_device(chosen: tuple[Cache, Artifact]) -> None:
    driver: Any = Driver()
    launch = open_cubin(chosen[0], "op", chosen[1], driver)
    for device in (1, 0, 1):
        launch(Fake(64, (1, 4), (CUDA, device)), Fake(64, (1,), (CUDA, device)), 1, 1.0)
    assert driver.entered == [1, 0, 1] and driver.left == 2
    assert [stream for _, _, stream, _ in driver.launched] == [0x51, 0x50, 0x51]
    assert driver.prepared == [(1, 1024), (0, 1024)]


def test_a_bad_call_launches_nothing(chosen: tuple[Cache, Artifact]) -> None:
    driver: Any = Driver()
    launch = open_cubin(chosen[0], "op", chosen[1], driver)
    x, y = Fake(1 << 20, (17, 4)), Fake(1 << 21, (17,))
    cases: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        ((), TypeError, "Expects 4 parameters when calling: `op\\(x: Tensor\\(\\[n, 4\\], float32\\), "),
        ((None, y, 1, 1.0), TypeError, r"Mismatched type on argument #0 \(x\) .*expected Tensor"),
        ((x, "y", 1, 1.0), TypeError, "Mismatched type on argument #1 .*expected Tensor"),
        ((x, y, 1.0, 1.0), TypeError, "Mismatched type on argument #2 .*expected int"),
        ((x, y, 2**31, 1.0), ValueError, "argument #2 .*expected to be in int32 range"),
        ((x, y, 2**70, 1.0), TypeError, "Mismatched type on argument #2 .*expected int"),
        ((x, y, 1, None), TypeError, "Mismatched type on argument #3 .*expected float"),
        ((Fake(1 << 20 | 8, (17, 4)), y, 1, 1.0), ValueError, "Misaligned Tensor data on argument #0"),
        ((Fake(1 << 20, (17, 4), (CPU, 0)), y, 1, 1.0), ValueError, "#0 .*expected device_type=cuda"),
        ((x, Fake(64, (17,), (CUDA, 1)), 1, 1.0), ValueError, "#1 .*expected to match x.device.index"),
        ((x, Fake(64, (16,)), 1, 1.0), ValueError, "y.shape\\[0\\] on argument #1 .*expected to match x.shape\\[0\\]"),
        ((Fake(64, (17, 4), strides=(6, 1)), y, 1, 1.0), ValueError, "x.strides\\[0\\] .*divisible by 4"),
        ((x, y, 0, 1.0), LaunchError, "the grid would be .*give other sizes"),
        ((x, y, 300, 1.0), LaunchError, "307200 bytes of shared memory, of at most 232448"),
    ]  # fmt: skip
    for args, kind, message in cases:
        with pytest.raises(kind, match=message):
            launch(*args)
    assert not driver.launched and not driver.loaded


# Few of each kind, so that many calls are alike but for one thing.
calls = st.tuples(
    st.builds(
        Fake,
        st.sampled_from([64, 1 << 20, 72]),
        st.sampled_from([(3, 4), (4, 4)]),
        st.sampled_from([(CUDA, 0), (CUDA, 1)]),
        strides=st.sampled_from([(4, 1), (8, 1), (6, 1)]),
    ),
    st.builds(Fake, st.sampled_from([64, 8]), st.sampled_from([(3,), (4,)]), st.just((CUDA, 0))),
    st.sampled_from([1, 2, True, np.int32(2), 1.0]),
    st.sampled_from([1.5, 2.5, 2, 1e300, np.float32(1.5), "x"]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=st.lists(calls, min_size=2, max_size=12))
def test_a_call_like_one_before_is_packed_and_refused_as_if_it_were_the_first(
    chosen: tuple[Cache, Artifact], some: list[tuple[Any, ...]]
) -> None:
    def outcome(launch: Any, driver: Any, args: tuple[Any, ...]) -> Any:
        before = len(driver.launched)
        try:
            launch(*args)
        except Exception as error:
            return type(error), str(error), len(driver.launched) - before
        return driver.launched[-1]

    driver: Any = Driver()
    launch = open_cubin(chosen[0], "op", chosen[1], driver)
    for args in some:
        alone: Any = Driver()
        assert outcome(launch, driver, args) == outcome(open_cubin(chosen[0], "op", chosen[1], alone), alone, args)


def test_alignment_is_checked_at_every_call(chosen: tuple[Cache, Artifact]) -> None:
    driver: Any = Driver()
    launch = open_cubin(chosen[0], "op", chosen[1], driver)
    for address in (64, 128, 72, 1 << 20):
        x, y = Fake(address, (17, 4)), Fake(64, (17,))
        if address % 16:
            with pytest.raises(ValueError, match="Misaligned Tensor data on argument #0"):
                launch(x, y, 1, 1.0)
        else:
            launch(x, y, 1, 1.0)
            assert driver.launched[-1][3][0][:8] == struct.pack("<Q", address)


def test_not_every_form_is_remembered(chosen: tuple[Cache, Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "_REMEMBERED", 3)
    driver: Any = Driver()
    launch = open_cubin(chosen[0], "op", chosen[1], driver)
    for count in (1, 2, 3, 4, 5, 1):
        launch(Fake(64, (1, 4)), Fake(64, (1,)), count, 1.0)
        assert len(launch._known) <= 3
    assert [extent.grid[1] for _, extent, _, _ in driver.launched] == [2, 4, 6, 8, 10, 2]


def test_the_drivers_word_on_parameters_is_the_last(chosen: tuple[Cache, Artifact]) -> None:
    for sizes in ((24, 16, 4), (24, 16, 4, 4, 4), (16, 16, 4, 4), (24, 24, 4, 4)):
        driver: Any = Driver(sizes)
        launch = open_cubin(chosen[0], "op", chosen[1], driver)
        with pytest.raises(loader.LoadError, match=r"takes parameters of .*rebuild the cache"):
            launch(Fake(64, (1, 4)), Fake(64, (1,)), 1, 1.0)
        with pytest.raises(loader.LoadError):
            launch.ready(0)
        assert not driver.launched


def test_a_kernel_of_it(chosen: tuple[Cache, Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = Driver()
    monkeypatch.setattr(cubin, "_bindings", lambda: None)
    monkeypatch.setattr(cubin, "Cuda", lambda _: driver)
    here = [Machine(arch=platform.machine(), capability=Capability(9, 0))]
    kernel = KernelOpener(lambda device: here[0]).open(chosen[0], "op", chosen[1])
    kernel(factor=1.0, count=1, y=Fake(64, (1,)), x=Fake(64, (1, 4)))
    assert len(driver.launched) == 1
    with pytest.raises(TypeError, match="argument #1"):
        kernel(Fake(64, (1, 4)), 1, 1, 1.0)
    here[0] = Machine(arch=platform.machine(), absent="none")
    assert kernel.obstacle


def test_one_without_a_plan_is_for_tools(native: Native, tmp_path: Path) -> None:
    cache, bare = make(native, tmp_path / "bare", None)
    with pytest.raises(loader.LoadError, match="without a host program, for tools to read"):
        open_cubin(cache, "op", bare)
    source = CachedOp(cache="c", precedence=0, index=cache.index, op=cache.op("op"))
    machine = Machine(arch=platform.machine(), glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
    (refused,) = resolve(Request(op="op"), machine, [source]).rejected
    assert "a cubin without a host program" in refused.reasons[0]


def test_an_object_is_preferred_and_a_cubin_serves_other_hosts(native: Native, tmp_path: Path) -> None:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    device = replace(
        artifact(writer.keep(b"device code"), {}, symbol="k", kind="cubin", host=None),
        signature=SIGNATURE,
        program=PLAN.program(SIGNATURE, "k"),
    )
    host = replace(artifact(writer.keep(native.echo()), {}, symbol="__tvm_ffi_echo"), signature=SIGNATURE)
    writer.op("op", [device, host], keys=())
    cache = Cache(writer.write(tmp_path / "cache"))
    source = CachedOp(cache="c", precedence=0, index=cache.index, op=cache.op("op"))
    here = Machine(arch=HOST.arch, glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
    other = replace(here, arch="aarch64" if here.arch == "x86_64" else "x86_64")
    for machine, kind in ((here, "object"), (other, "cubin")):
        taken = resolve(Request(op="op"), machine, [source]).chosen
        assert taken is not None and taken.artifact.kind == kind
