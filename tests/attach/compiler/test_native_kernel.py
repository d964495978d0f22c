"""Kernels of sites without TVM-FFI: what a library hands to its compiled object, as the kernel of a cache takes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from precast.attach.compiler import host_values
from precast.attach.compiler.native_kernel import NativeKernel
from precast.attach.compiler.placeholder import NoCompiler
from precast.attach.recordings.provenance import parse_defaults
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.errors import FormatError

torch = pytest.importorskip("torch")
tvm_ffi = pytest.importorskip("tvm_ffi")

X = Argument(name="x", kind="tensor", dtype="float32", shape=("n",))
P = Argument(name="p", kind="pointer", dtype="float32")
S = Argument(name="stream", kind="stream")
N = Argument(name="n", kind="scalar", dtype="int32")
PAIR = Argument(name="pair", kind="tuple", members=(P, N))


def native(*arguments: Argument, **defaults: Any) -> NativeKernel:
    """A native kernel that gives what the kernel of the cache is called with."""
    kernel: Any = _Echo(Signature(arguments=arguments))
    return NativeKernel(kernel, defaults)


class _Echo(SimpleNamespace):
    op = "toy"

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature=signature)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return args


class Both(NamedTuple):
    pointer: Any
    count: Any


@dataclass(frozen=True)
class Same:
    pointer: Any
    count: Any


class Own:
    """A pointer of a library's own, which has nothing but the place of its address."""

    def __init__(self, address: int) -> None:
        self._held = ctypes.c_void_p(address)

    def __c_pointers__(self) -> Sequence[int]:
        return [ctypes.addressof(self._held)]


def test_the_dsl_s_own_values_become_plain() -> None:
    cutlass = pytest.importorskip("cutlass")
    from cuda.bindings import driver
    from cutlass.cute.runtime import from_dlpack, make_ptr

    tensor = torch.arange(12, dtype=torch.float32).view(3, 4).t()
    view = from_dlpack(tensor, assumed_align=4).mark_layout_dynamic()
    pointer = make_ptr(cutlass.Float32, tensor.data_ptr(), assumed_align=4)
    found, address, stream, number = native(X, P, S, N)(view, pointer, driver.CUstream(7), cutlass.Int32(5))
    assert (address, stream, number) == (tensor.data_ptr(), 7, 5)
    assert all(type(one) is int for one in (address, stream, number))
    seen = torch.from_dlpack(found)
    assert torch.equal(seen, tensor)
    assert (seen.data_ptr(), seen.stride()) == (tensor.data_ptr(), tensor.stride())
    passed = tvm_ffi.convert(lambda *args: list(args[0].shape))(found)
    assert list(passed) == [4, 3]
    assert view.data_ptr == tensor.data_ptr()  # the view is whole after the call


@pytest.mark.parametrize("pointer", [64, ctypes.c_void_p(64), ctypes.cast(64, ctypes.POINTER(ctypes.c_float)), Own(64)])
def test_every_kind_of_pointer_is_an_address(pointer: Any) -> None:
    assert native(P)(pointer) == (64,)


@pytest.mark.parametrize("pair", [(64, 3), [64, 3], Both(64, 3), Same(64, 3), Both(Own(64), 3)])
def test_tuples_and_dataclasses_are_tuples_of_plain_values(pair: Any) -> None:
    assert native(PAIR)(pair) == ((64, 3),)


def test_streams_of_torch_and_of_cuda_core_are_handles() -> None:
    class Core:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 9

    assert native(S)(SimpleNamespace(cuda_stream=8)) == (8,)
    assert native(S)(Core()) == (9,)


def test_arguments_go_by_name_and_may_be_left_out() -> None:
    kernel = native(P, N, S, n=2)
    assert kernel(64, stream=1) == (64, 2, 1)
    assert kernel(p=64, n=3, stream=1) == (64, 3, 1)


@pytest.mark.parametrize(
    ("args", "named", "said"),
    [((64, 2), {}, "misses stream"), ((64, 2, 1, 1), {}, "takes 3 arguments"), ((64,), {"p": 1}, "cannot take p")],
)
def test_a_wrong_call_says_what_is_wrong(args: tuple[Any, ...], named: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        native(P, N, S)(*args, **named)


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        (P, "x", "expected a pointer"),
        (S, "x", "expected a stream"),
        (N, "x", "expected a number"),
        (X, 64, "expected a tensor"),
        (PAIR, (64,), "expected a tuple of 2"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(argument: Argument, value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=f"{argument.name} is a .*{said}"):
        native(argument)(value)


def test_a_kernel_that_takes_the_current_stream_of_tvm_ffi_is_refused() -> None:
    with pytest.raises(FormatError, match="takes the current stream"):
        native(P, Argument(name="stream", kind="env_stream"))


@pytest.mark.parametrize("value", [8, {"n": "x"}, {1: 2}, {"n": [1]}])
def test_defaults_are_checked_when_they_are_read(value: Any) -> None:
    with pytest.raises(FormatError, match="rebuild the cache"):
        parse_defaults(value)


def test_without_the_dsl_views_and_pointers_hold_the_tensor_and_the_address() -> None:
    tensor = torch.zeros(4)
    view = host_values.from_dlpack(tensor, assumed_align=16).mark_layout_dynamic().mark_compact_shape_dynamic(0)
    pointer = host_values.make_ptr(SimpleNamespace(width=32), ctypes.c_void_p(64), assumed_align=16)
    found, address = native(X, P)(view, pointer)
    assert found is tensor
    assert address == 64
    with pytest.raises(NoCompiler, match="iterator"):
        _ = view.iterator
    with pytest.raises(ValueError, match="not aligned to 16"):
        host_values.make_ptr(None, 8, assumed_align=16)
