"""The call path: for every kind of argument, it does what tvm_ffi would do."""

from __future__ import annotations

import ctypes
import enum
import fractions
import gc
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

import cutlass
import numpy as np
import torch
import tvm_ffi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.loader.launch import library
from precast.loader.launch.kernel import Kernel
from tests.helpers.caches import Native, echo_cache, run_alone
from tests.helpers.echo import (
    LEAVE_NO_ERROR,
    RAISE,
    RETURN_BOOL,
    RETURN_FLOAT,
    RETURN_INT,
    RETURN_TENSOR,
    RETURN_TEXT,
    hands_over,
    needs_call_path,
    outcome,
    resident,
)
from tests.helpers.exchange import CPU, CUDA, Fake, Spiteful, exchange


@needs_call_path
def test_there_are_two_ways(kernels: tuple[Kernel, Kernel]) -> None:
    fast, plain = kernels
    assert isinstance(fast, Kernel) and type(fast) is not Kernel
    assert type(plain) is Kernel
    quick: list[Any] = [
        1, 1.5, True, None, (), (None, 2, 0.5), torch.ones(3), Fake(64, (2,)), ((),), (torch.ones(1),), Pair(1, None),
        Pair((torch.ones(1), 2), Pair(Fake(64, (2,)), 0.5)),
        cutlass.Int32(5), (cutlass.Int32(5), Floating(0.5)),
    ]  # fmt: skip
    for plainly in (*quick, torch.nn.Parameter(torch.ones(1))):
        assert not hands_over(fast, 0, plainly), plainly
    slow: list[Any] = [
        "s",
        2**63,
        (1, "s"),
        Derived(1, 2),
        Streaming((1, 2)),
        (((((),),),),),
        [1],
        np.ones(1),
        np.float64(1),
        object(),
    ]
    for otherwise in (*slow, tvm_ffi.from_dlpack(torch.ones(1))):
        assert hands_over(fast, 0, otherwise), otherwise
    assert hands_over(fast, 0, Standing(64, (1,)))


class Standing(Fake):
    """A tensor by its exchange, and what tvm_ffi asks for first."""

    def __tvm_ffi_object__(self) -> Any:
        return tvm_ffi.from_dlpack(torch.ones(1))


class Pair(NamedTuple):
    first: Any
    second: Any


class Derived(Pair):
    pass


class Strict(type):
    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(name) if not name.startswith("__tvm") else ZeroDivisionError(name)


class Odd(tuple[Any, ...], metaclass=Strict):
    pass


class Streaming(tuple[int, ...]):
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 64)


class Number:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __tvm_ffi_int__(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Floating:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __tvm_ffi_float__(self) -> Any:
        return self.value


class Called(Number):
    def __call__(self) -> int:
        return 1


class Colour(enum.IntEnum):
    RED = 3


class Refusing:
    def __dlpack__(self, **_: object) -> object:
        raise BufferError("argument #0: not today")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Subclass(torch.Tensor):
    pass


def tensors() -> list[Any]:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    found = [
        base, base[1], base[:, ::2], base.transpose(0, 2), base.expand(2, 3, 4), base[0, 0, 0], torch.empty(0, 5),
        base.to(torch.bfloat16), base.to(torch.float16), base.long(), base.bool(), base.to(torch.complex64),
        base.to(torch.complex64).conj(), torch.zeros(2, dtype=torch.uint8), torch.zeros(2).to(torch.float8_e4m3fn),
        torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(2, 2)), base.as_subclass(Subclass),
        torch.eye(3).to_sparse(), torch.empty(3, device="meta"), torch.zeros((1,) * 40),
        torch._neg_view(torch.ones(2)), torch.ones(4).as_strided((2, 2), (1, 1)),
    ]  # fmt: skip
    return found


def others() -> list[Any]:
    return [
        None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, 2**200, -(2**65), 0.0, -0.0, float("nan"), float("inf"),
        1e308, "", "short", "longer than seven", "\udcff", "é" * 9, b"", b"bytes", b"more than seven", bytearray(b"x"),
        (), (1, 2), Pair(1, None), Pair(2**70, 1), Pair(torch.ones(2), Pair(1.5, (Fake(64, (2,)), torch.ones(3)))),
        Derived(1, torch.ones(2)), Odd((1, 2)), Streaming((1, 2)), tvm_ffi.Shape((1, 2)), time.gmtime(0),
        (((((1,),),),),), (Fake(64, (3,), (CUDA, 1)), Fake(64, (2,), (CUDA, 0))), Pair(Fake(64, (3,), (CPU, 0)), None),
        (Refusing(), 1),
        cutlass.Int32(5), cutlass.Int64(-1), cutlass.Boolean(True), cutlass.Float32(1.5), Number(7), Number(True),
        Number(Colour.RED), Number(2**70), Number("7"), Number(ValueError("no number")), Number(None), Called(3),
        Floating(0.5), Floating(1), Floating("x"), (cutlass.Int32(5), Pair(Floating(0.5), None)),
        (Number(ValueError("no number")), torch.ones(1)),
        (torch.eye(3).to_sparse(), 1), (1, torch.empty(3, device="meta")), ((torch.ones(1),) * 30,) * 9,
        (None, None), (True, -1, 2.5, None), (2**70,), ((1,), 2), (0,) * 32, (0,) * 33,
        [1, [2.5, ("a", None)]], {}, {"a": 1, "b": [2]}, (torch.ones(2), 1), [torch.ones(2)], {1, 2},
        np.ones(3, np.float32), np.float32(1.5), np.float64(2.5), np.int64(7), np.bool_(True), np.dtype("float32"),
        torch.float16, torch.device("cpu"), Colour.RED, fractions.Fraction(1, 3), object(), print, len, Colour,
        ValueError("e"), ctypes.c_void_p(16), ctypes.c_void_p(None), Refusing(), Spiteful(), 1j, ..., NotImplemented,
        range(3), memoryview(b"abc"), Fake(4096, (2, 3)), Fake(64, (3,), (CUDA, 1)), Fake(64, (3,), (CPU, 0)),
        Fake(64, (2, 2), strides=(7, 1)), Fake(64, ()), Fake(0, (0,)),
    ]  # fmt: skip


KEPT = [*tensors(), *others()]


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_every_kind_of_argument(kernels: tuple[Kernel, Kernel], number: int) -> None:
    fast, plain = kernels
    for wish in (RETURN_TEXT, RAISE):
        assert outcome(fast, wish, KEPT[number]) == outcome(plain, wish, KEPT[number])
    assert outcome(fast, KEPT[number]) == outcome(plain, KEPT[number])


anything = st.one_of(
    st.sampled_from(KEPT), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers()),
    st.builds(lambda shape, dtype: torch.zeros(shape, dtype=dtype),
              st.lists(st.integers(0, 3), max_size=5),
              st.sampled_from([torch.float32, torch.int8, torch.bfloat16])),
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wish=st.one_of(st.integers(0, 4), st.integers(10, 19)), args=st.lists(anything, max_size=70))
def test_any_list_of_arguments(kernels: tuple[Kernel, Kernel], wish: int, args: list[Any]) -> None:
    fast, plain = kernels
    assert outcome(fast, wish, *args) == outcome(plain, wish, *args)


@needs_call_path
def test_an_entry_that_fails_without_an_error(kernels: tuple[Kernel, Kernel]) -> None:
    """tvm_ffi would crash."""
    with pytest.raises(RuntimeError, match="left no error: report this to its author"):
        kernels[0](LEAVE_NO_ERROR, torch.ones(1))


@pytest.mark.parametrize("kind", range(10, 20))
def test_every_kind_of_error(kernels: tuple[Kernel, Kernel], kind: int) -> None:
    fast, plain = kernels
    one, other = outcome(fast, kind, 5), outcome(plain, kind, 5)
    assert one == other
    assert one[0] == "raised" and "argument #1 (x) of 2" in one[2]


@needs_call_path
def test_an_unknown_error_needs_no_tvm_ffi(native: Native, tmp_path: Path) -> None:
    cache, _ = echo_cache(native, tmp_path / "echo")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from precast.loader.session import Session\n"
        "from precast.loader.contract.format.target import Capability\n"
        "from precast.loader.machine.machine import Machines, replace\n"
        "from precast.loader.resolve.candidate import Request\n"
        "here = Machines(replace(Machines().host, capability=Capability(9, 0)))\n"
        "kernel = Session(machines=here).get(Request(op='echo'))\n"
        "for wish, expected in (11, TypeError), (12, KeyError), (17, RuntimeError):\n"
        "    try: kernel(wish, 2.5)\n"
        "    except Exception as error: assert type(error) is expected and '#1 (x)' in str(error), repr(error)\n"
        "    else: raise SystemExit('nothing was raised')\n"
        "assert kernel(1, None, 3) == 3 and kernel(2, 1) == 0.5 and kernel(3) is True\n"
        "assert kernel(wish=4, y=1, x=True).startswith('argument #1 of 3')\n"
        "assert 'numpy' not in sys.modules or 'tvm_ffi' in sys.modules\n"
    )
    run_alone(code.replace("kernel(wish=4", "'tvm_ffi' not in sys.modules and kernel(wish=4"), cache.path)


def test_results(kernels: tuple[Kernel, Kernel]) -> None:
    fast, plain = kernels
    for wish in (0, RETURN_INT, RETURN_FLOAT, RETURN_BOOL, RETURN_TEXT):
        assert outcome(fast, wish, 1, 2) == outcome(plain, wish, 1, 2)
    x = torch.ones(3, 5, dtype=torch.float64)
    made = fast(RETURN_TENSOR, x)
    assert type(made) is torch.Tensor and made.shape == x.shape and made.dtype == x.dtype
    assert outcome(fast, RETURN_TENSOR, x) == outcome(plain, RETURN_TENSOR, x)


def test_the_stream_is_the_owners_and_the_environment_is_put_back(kernels: tuple[Kernel, Kernel]) -> None:
    fast, _ = kernels
    ffi = ctypes.CDLL(str(library.load_ffi()._name))
    current, change = ffi.TVMFFIEnvGetStream, ffi.TVMFFIEnvSetStream
    current.restype = ctypes.c_void_p
    change.argtypes = (ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    change(CUDA, 1, 0x77, None)
    try:
        for wish in (RETURN_TEXT, RAISE):
            text = outcome(fast, wish, torch.ones(1), Fake(64, (2,), (CUDA, 1)))[2]
            assert "on 2:1 of" in text and "stream 0x2001" in text
            assert current(CUDA, 1) == 0x77
    finally:
        change(CUDA, 1, None, None)
    assert "stream 0x2000" in fast(RETURN_TEXT, Fake(64, (2,)), Fake(64, (2,)))


@needs_call_path
@pytest.mark.parametrize("first", [torch.ones(1), None, Fake(64, (2,), (CUDA, 2)), (torch.ones(1), None)])
def test_the_stream_of_a_tensor_in_a_tuple(kernels: tuple[Kernel, Kernel], first: Any) -> None:
    fast, plain = kernels
    args = (RETURN_TEXT, first, (None, Pair(torch.ones(1), Fake(64, (2,), (CUDA, 1)))), Fake(64, (2,), (CUDA, 0)))
    assert not hands_over(fast, *args)
    assert "stream 0x200" in fast(*args)
    assert fast(*args) == plain(*args)


def test_the_allocator_is_put_back(kernels: tuple[Kernel, Kernel]) -> None:
    """A thread of its own, whose environment no call has touched yet."""
    allocator = ctypes.CDLL(str(library.load_ffi()._name)).TVMFFIEnvGetDLPackManagedTensorAllocator
    allocator.restype = ctypes.c_void_p
    seen: list[Any] = []

    def work() -> None:
        seen.append(allocator())
        seen.append(kernels[0](RETURN_TENSOR, torch.ones(2)))
        outcome(kernels[0], RAISE, torch.ones(2))
        seen.append(allocator())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert type(seen[1]) is torch.Tensor and seen[0] == seen[2]


@needs_call_path
def test_shapes_are_the_calls_own(kernels: tuple[Kernel, Kernel]) -> None:
    """No pointer into a tensor's own shape goes to the entry: another thread may resize it during the call."""

    class Shifting(Fake):
        pass

    def view(fake: Any, out: Any) -> int:
        out[0] = fake.tensor
        out[0].shape = (ctypes.c_int64 * 1)(5)
        out[0].strides = None
        return 0

    from tests.helpers.exchange import View

    Shifting.__dlpack_c_exchange_api__ = exchange(view=View(view))[1]
    gc.collect()
    assert " 5/1 " in kernels[0](RETURN_TEXT, Shifting(64, (1,)))


@needs_call_path
def test_an_exchange_of_another_major_version(kernels: tuple[Kernel, Kernel]) -> None:
    """An older table that the type also carries is taken; without one, it is a matter for tvm_ffi."""
    known, _ = exchange()

    class Newer(Fake):
        __dlpack_c_exchange_api__ = exchange(2, ctypes.addressof(known))[1]

    class Alien(Fake):
        __dlpack_c_exchange_api__ = exchange(2)[1]

    assert not hands_over(kernels[0], 0, Newer(64, (1,)))
    assert hands_over(kernels[0], 0, Alien(64, (1,)))


def test_more_dimensions_than_there_is_room_for(kernels: tuple[Kernel, Kernel]) -> None:
    fast, plain = kernels
    flat = torch.zeros((1,) * 60)
    for count in range(1, 60, 7):
        assert outcome(fast, RETURN_TEXT, *[flat] * count) == outcome(plain, RETURN_TEXT, *[flat] * count)


@needs_call_path
def test_a_result_that_cannot_be_converted(kernels: tuple[Kernel, Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is let go, and no later call gets it."""
    fast, tensors = kernels[0], [torch.ones(1)] * 60

    def refuse(*_: Any) -> None:
        raise BufferError("not given away")

    before = 0
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(fast, "_converted", refuse)
            for _ in range(600):
                with pytest.raises(BufferError):
                    fast(RETURN_TEXT, *tensors)
        assert fast(RETURN_TEXT).startswith("argument #1 of 1")
        growth, before = resident() - before if before else 0, before or resident()
        assert growth < 1 << 20


@needs_call_path
def test_names(kernels: tuple[Kernel, Kernel]) -> None:
    fast, _ = kernels
    assert fast(wish=4, y=2, x=1) == fast(4, 1, y=2) == fast(4, 1, 2)
    assert not hands_over(fast, 0)
    with pytest.raises(TypeError, match="no argument 'z'"):
        fast(4, z=1)
    with pytest.raises(TypeError, match="'x' twice"):
        fast(4, 1, x=1)
    assert fast(1, *range(100)) == 101, "more than are packed"
