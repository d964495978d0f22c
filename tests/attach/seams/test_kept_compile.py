"""Compile functions that are given more than a key: what they hand on to the kernel, and tensors."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import FunctionType
from typing import Any, ClassVar

import pytest

from precast.attach.library import Library
from precast.attach.seams.cached_compile import cached_compile
from precast.attach.seams.compile_sites import compiles
from precast.attach.seams.kept_compile import keeps_kernels

LIBRARY = Library(name="one", distribution="zstandard", package="zstandard", seams=())


class Asked:
    """An attachment that has no kernel, or one; it remembers what it was asked for."""

    recording = False

    def __init__(self, kernel: Any = None) -> None:
        self.kernel = kernel
        self.keys: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {}

    def on_change(self, forget: Any) -> None:
        self.forget = forget

    def obtain(self, library: Library, function: str, arguments: Mapping[str, Any], **how: Any) -> Any:
        # A tensor among the arguments is not remembered here: it is the hook that must not keep it.
        self.keys.append({name: one for name, one in arguments.items() if type(one) in (int, float, str)})
        return self.kernel


class Tensor:
    def __dlpack__(self) -> None: ...


def compile_for(tile: int, m: int, scale: float, stream: object) -> str:
    return f"compiled {tile} {m}"


def test_what_is_handed_on_is_no_key() -> None:
    asked = Asked("kernel")
    hooked = cached_compile(asked, LIBRARY, compile_for, compile_for, ("m", "scale", "stream"))
    assert {hooked(64, m, m / 2, object()) for m in (1, 5, 300)} == {"kernel"}
    assert hooked(tile=128, m=7, scale=1.0, stream=None) == "kernel"
    assert asked.keys == [{"tile": 64, "m": 1, "scale": 1.0}, {"tile": 128, "m": 1, "scale": 1.0}]


def test_a_miss_compiles_with_the_arguments_of_the_call() -> None:
    hooked = cached_compile(Asked(), LIBRARY, compile_for, compile_for, ("m", "scale", "stream"))
    assert hooked(64, 5, 1.0, None) == "compiled 64 5"
    assert hooked(64, 6, 1.0, None) == "compiled 64 6"


def test_the_answer_is_kept_as_the_librarys_own_mapping_keeps_it() -> None:
    asked = Asked("kernel")
    hooked = cached_compile(asked, LIBRARY, compile_for, compile_for, ("m",))
    hooked(1, 5, 1.0, None)
    hooked(True, 5, 1.0, None)
    assert len(asked.keys) == 1
    asked.forget()
    hooked(1, 5, 1.0, None)
    assert len(asked.keys) == 2


_kept: dict[Any, Any] = {}
_last = 0


class Holder:
    kept: ClassVar[dict[Any, Any]] = {}


def in_module(n: int) -> Any:
    _kept[n] = n
    return _kept[n]


def in_class(n: int) -> Any:
    Holder.kept[n] = n


def in_function(n: int) -> Any:
    in_function.kept[n] = n  # type: ignore[attr-defined]


def in_global(n: int) -> Any:
    global _last
    _last = n


def in_none(n: int) -> Any:
    own = dict(_kept)
    return own.get(n)


def test_where_a_function_keeps_kernels_is_found() -> None:
    vars(in_function)["kept"] = {}
    functions = (in_module, in_class, in_function, in_global, in_none)
    assert [keeps_kernels(function) for function in functions] == [True, True, True, True, False]


def test_a_wrong_call_is_the_function_s_own_error() -> None:
    hooked = cached_compile(Asked("kernel"), LIBRARY, compile_for, compile_for, ("m",))
    with pytest.raises(TypeError, match="compile_for"):
        hooked(64)


def test_a_tensor_that_a_compile_function_was_given_is_not_kept() -> None:
    def compiled(x: Any) -> str:
        return "compiled"

    hooked = cached_compile(Asked(), LIBRARY, compiled, compiled)
    tensor = Tensor()
    gone = weakref.ref(tensor)
    assert hooked(tensor) == hooked(tensor) == "compiled"
    del tensor
    assert gone() is None


def test_a_function_that_compiles_in_one_inside_it_is_found() -> None:
    """The inner function is compiled, or handed to a cache on disk."""
    names: dict[str, Any] = {}
    exec(
        "def outer(n):\n"
        "    def build():\n"
        "        return cute.compile(n)\n"
        "    return load(build)\n"
        "def imported(n):\n"
        "    import cutlass.cute as cute\n"
        "    return load(lambda: cute.compile(n))\n"
        "def factory(n):\n"
        "    return lambda: cute.compile(n)\n"
        "def other(n):\n"
        "    return re.compile(n)\n",
        names,
    )
    found = {name for name, one in names.items() if isinstance(one, FunctionType) and compiles(one, ("load",))}
    assert found == {"outer", "imported"}


def test_a_tensor_among_the_key_is_not_kept_either() -> None:
    hooked = cached_compile(Asked(), LIBRARY, compile_for, compile_for, ("m",))
    tensor = Tensor()
    gone = weakref.ref(tensor)
    assert hooked(64, 5, 1.0, tensor) == "compiled 64 5"
    del tensor
    assert gone() is None
