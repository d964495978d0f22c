"""Capture: every compiled object is collected at ``cute.compile``, the call that all of them come from.

Runs in worker processes only. A kernel function may therefore return a closure, stand under ``functools.cache``, or
belong to a library that does not know precast. The names, dtypes and shapes of the arguments come from the same call.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

from precast.build.child.fact_recorder import packages_here
from precast.kernels.authoring.errors import SourceError
from precast.loader.format.signature import Argument, Dim, Signature, Symbol

_NO_TENSOR = "EnvStream cannot be detected"


@dataclass(frozen=True, slots=True)
class Caught:
    """One compiled object and its signature; None where it was not compiled for TVM-FFI."""

    compiled: Any
    signature: Signature | None


class Catcher:
    """Collects every object that ``cute.compile`` makes; compilations inside a compilation do not count.

    It cannot be removed: the compiler keeps the first hook that it finds. ``packages`` names the packages that took
    part in a compilation: they may hold compiled objects in caches of their own.
    """

    def __init__(self) -> None:
        self._caught: list[Caught] = []
        self._specs: list[Any] | None = None
        self._depth = 0
        self.packages: set[str] = set()

    def install(self) -> Catcher:
        """Hook into the compiler. Call once, before anything is compiled."""
        from cutlass.base_dsl.compiler import CompileCallable
        from cutlass.cute import _tvm_ffi_args_spec_converter as converter

        compile_call, convert = CompileCallable.__call__, converter._tvm_ffi_args_spec_converter

        def record_specs(*args: Any, **kwargs: Any) -> Any:
            converted = convert(*args, **kwargs)
            self._specs = converted[0]
            return converted

        @functools.wraps(compile_call)
        def record_compiled(callable_: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            self.packages |= packages_here()[0]
            try:
                self._specs = None
                compiled = compile_call(callable_, *args, **kwargs)
            except Exception as error:
                if _NO_TENSOR not in str(error):
                    raise
                raise SourceError(
                    "the caller's stream is found by a tensor argument, and this kernel takes only pointers: "
                    "compile it with make_fake_stream(), without use_tvm_ffi_env_stream, and pass a stream at the call"
                ) from None
            finally:
                self._depth -= 1
            if self._depth == 0:
                self._caught.append(Caught(compiled, None if self._specs is None else signature_of(self._specs)))
            return compiled

        converter._tvm_ffi_args_spec_converter = record_specs
        CompileCallable.__call__ = record_compiled
        return self

    def take(self) -> tuple[Caught, ...]:
        """The objects caught since the last call."""
        caught, self._caught = tuple(self._caught), []
        return caught


def forget_compiled(package: str) -> None:
    """Empty the function caches of a package, so that a function that has compiled before compiles again."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package.partition(".")[0] and module is not None:
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def signature_of(specs: list[Any]) -> Signature:
    """The signature of a compiled object, from the compiler's own description of its arguments."""
    symbols = _Symbols()
    return Signature(arguments=tuple(_argument(spec, symbols) for spec in specs), symbols=symbols.table)


class _Symbols:
    """Names for the sizes that are known only at the call. A size that appears twice has one name."""

    def __init__(self) -> None:
        self.table: dict[str, Symbol] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # an id is valid only while its object lives

    def dim(self, value: Any) -> Dim:
        if isinstance(value, int):
            return value
        name = self._names.get(id(value))
        if name is None:
            name = value.name or "n"
            if name in self.table:
                name = next(n for i in range(2, 10_000) if (n := f"{name}_{i}") not in self.table)
            self._names[id(value)] = name
            self._kept.append(value)
            self.table[name] = Symbol(dtype=str(value.dtype), divisibility=value.divisibility or 1)
        return name


def _argument(spec: Any, symbols: _Symbols) -> Argument:
    kind = type(spec).__name__
    if kind == "Tensor":
        return Argument(
            name=spec.name,
            kind="tensor",
            dtype=str(spec.dtype),
            shape=tuple(symbols.dim(d) for d in spec.shape),
            strides=None if spec.strides is None else tuple(symbols.dim(s) for s in spec.strides),
            alignment=spec.data_alignment or 0,
            device=spec.device_type_name,
        )
    if kind == "Var":
        return Argument(name=spec.name, kind="scalar", dtype=str(spec.dtype), divisibility=spec.divisibility or 1)
    if kind == "Shape":
        return Argument(name=spec.name, kind="shape", shape=tuple(symbols.dim(d) for d in spec.shape))
    if kind == "TupleParam":
        return Argument(name=spec.name, kind="tuple", members=tuple(_argument(p, symbols) for p in spec.params))
    if kind in ("ConstInt", "ConstBool", "ConstFloat"):
        return Argument(name=spec.name, kind="const", value=spec.value)
    named = {"Stream": "stream", "EnvStream": "env_stream", "DataPointer": "pointer", "ConstNone": "none"}
    if kind not in named:
        raise TypeError(
            f"argument {getattr(spec, 'name', '?')!r}: the compiler describes it as {kind}, which is not known here"
        )
    return Argument(name=spec.name, kind=named[kind])
