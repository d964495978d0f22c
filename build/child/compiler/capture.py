"""Capture: every compiled object is collected at ``cute.compile``, the call that all of them come from.

Runs in worker processes only. A kernel function may therefore return a closure, stand under ``functools.cache``, or
belong to a library that does not know precast. The names, dtypes and shapes of the arguments come from the same call.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.errors import SourceError
from precast.loader.contract.format.signature import Argument, Dim, Signature, Symbol

_NO_TENSOR = "EnvStream cannot be detected"


@dataclass(frozen=True, slots=True)
class Caught:
    """One compiled object and its signature; None where it was not compiled for TVM-FFI.

    ``native`` has the defaults of its arguments where the author did not ask for TVM-FFI, so that the author's own code
    calls it in the DSL's native convention; None where he did.
    """

    compiled: Any
    signature: Signature | None
    native: Mapping[str, Any] | None = None


class Catcher:
    """Collects every object that ``cute.compile`` makes; compilations inside a compilation do not count.

    It cannot be removed: the compiler keeps the first hook that it finds.
    """

    def __init__(self) -> None:
        self._caught: list[Caught] = []
        self._specs: list[Any] | None = None
        self._pointers: dict[str, tuple[str, int]] = {}
        self._defaults: dict[str, Any] = {}
        self._depth = 0

    def install(self) -> Catcher:
        """Hook into the compiler. Call once, before anything is compiled."""
        from cutlass.base_dsl.compiler import CompileCallable
        from cutlass.cute import _tvm_ffi_args_spec_converter as converter

        compile_call, convert = CompileCallable.__call__, converter._tvm_ffi_args_spec_converter

        def record_specs(*args: Any, **kwargs: Any) -> Any:
            converted = convert(*args, **kwargs)
            self._pointers = dict(_pointers(args[1].bind_partial(*args[2], **args[3]).arguments, converter))
            self._specs, self._defaults = converted[0], _plain_defaults(converted[1])
            return converted

        @functools.wraps(compile_call)
        def record_compiled(callable_: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            with _asked_for_tvm_ffi(callable_, kwargs.get("options")) as requested:
                try:
                    self._specs = None
                    compiled = compile_call(callable_, *args, **kwargs)
                except Exception as error:
                    if _NO_TENSOR not in str(error):
                        raise
                    raise SourceError(
                        "the caller's stream is found by a tensor argument, and this kernel takes only pointers:"
                        " compile it with make_fake_stream(), without use_tvm_ffi_env_stream, and pass a stream"
                        " at the call"
                    ) from None
                finally:
                    self._depth -= 1
            if self._depth == 0:
                signature = None if self._specs is None else signature_of(self._specs, self._pointers)
                self._caught.append(Caught(compiled, signature, None if requested else self._defaults))
            return compiled

        converter._tvm_ffi_args_spec_converter = record_specs
        CompileCallable.__call__ = record_compiled
        return self

    def take(self) -> tuple[Caught, ...]:
        """The objects caught since the last call."""
        caught, self._caught = tuple(self._caught), []
        return caught


@contextlib.contextmanager
def _asked_for_tvm_ffi(callable_: Any, options: Any) -> Iterator[bool]:
    """Whether a call of ``cute.compile`` asks for TVM-FFI itself, by its options or by those in brackets.

    The variable that asks for it in every call is written into the options in brackets: that is taken back.
    """
    from cutlass.base_dsl.compiler import EnableTVMFFI

    option = callable_._compile_options.options[EnableTVMFFI]
    before = bool(option.value)
    try:
        yield "enable-tvm-ffi" in options if isinstance(options, str) and options else before
    finally:
        option.value = before


def _plain_defaults(wrapper: Any) -> dict[str, Any]:
    """The defaults of arguments that are numbers or None, by name, from the compiler's description of a call."""
    last = wrapper.arg_names[len(wrapper.arg_names) - len(wrapper.arg_defaults) :]
    defaults = {**dict(zip(last, wrapper.arg_defaults, strict=True)), **wrapper.kwonly_defaults}
    return {name: value for name, value in defaults.items() if value is None or type(value) in (bool, int, float)}


def signature_of(specs: list[Any], pointers: Mapping[str, tuple[str, int]]) -> Signature:
    """The signature of a compiled object, from the compiler's own description of its arguments.

    The description does not say what a pointer points to, and how it is aligned: ``pointers`` does, by name.
    """
    symbols = _Symbols(pointers)
    return Signature(arguments=tuple(_argument(spec, symbols) for spec in specs), symbols=symbols.table)


def _pointers(values: Mapping[str, Any], converter: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """The pointers among the arguments of a compilation: the name that the compiler gives each, dtype and alignment."""
    for name, value in values.items():
        if isinstance(value, (tuple, list)):
            yield from _pointers({f"{name}[{i}]": item for i, item in enumerate(value)}, converter)
        elif isinstance(value, converter.Pointer):
            dtype = converter.NumericToTVMFFIDtype.get(value.dtype, "")
            yield name, (dtype, int(getattr(value, "_assumed_align", 0)))


class _Symbols:
    """Names for the sizes that are known only at the call. A size that appears twice has one name."""

    def __init__(self, pointers: Mapping[str, tuple[str, int]]) -> None:
        self.table: dict[str, Symbol] = {}
        self.pointers = pointers
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
    if kind == "DataPointer":
        dtype, alignment = symbols.pointers.get(spec.name, ("", 0))
        return Argument(name=spec.name, kind="pointer", dtype=dtype, alignment=alignment)
    named = {"Stream": "stream", "EnvStream": "env_stream", "ConstNone": "none"}
    if kind not in named:
        raise TypeError(
            f"argument {getattr(spec, 'name', '?')!r}: the compiler describes it as {kind}, which is not known here"
        )
    return Argument(name=spec.name, kind=named[kind])
