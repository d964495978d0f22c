"""Capture: collects every compiled object at ``cute.compile``, which makes all of them.

It runs only in worker processes. A kernel function may therefore return a closure, be wrapped in ``functools.cache``,
or belong to a library that does not use precast. The names, dtypes and shapes of arguments come from the same call.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.child.compiler.keep_ptx import PtxKeeper
from precast.kernels.authoring.errors import SourceError
from precast.loader.contract.format.signature import Argument, Dim, Signature, Symbol

_NO_TENSOR = "EnvStream cannot be detected"


@dataclass(frozen=True, slots=True)
class Caught:
    """One compiled object and its signature, which is None if it was not compiled for TVM-FFI.

    ``native`` has the defaults of its arguments if the author did not enable TVM-FFI, so that the author's code calls
    it in the DSL's native convention; otherwise it is None. ``ptx`` is the file of its PTX, without a suffix, which the
    author's options may have moved.
    """

    compiled: Any
    signature: Signature | None
    native: Mapping[str, Any] | None = None
    ptx: Path | None = None


class Catcher:
    """Collects every object that ``cute.compile`` makes, except for compilations inside a compilation.

    It cannot be removed: the compiler keeps its first hook.
    """

    def __init__(self) -> None:
        self._caught: list[Caught] = []
        self._specs: list[Any] | None = None
        self._pointers: dict[str, tuple[str, int]] = {}
        self._defaults: dict[str, Any] = {}
        self._depth = 0
        self.ptx = PtxKeeper()

    def install(self) -> Catcher:
        """Hook into the compiler. Call it once, before anything is compiled."""
        from cutlass.base_dsl.compiler import CompileCallable
        from cutlass.cute import _tvm_ffi_args_spec_converter as converter

        self.ptx.install()
        compile_call, convert = CompileCallable.__call__, converter._tvm_ffi_args_spec_converter

        def record_specs(*args: Any, **kwargs: Any) -> Any:
            converted = convert(*args, **kwargs)
            self._pointers = dict(_pointers(args[1].bind_partial(*args[2], **args[3]).arguments, converter))
            self._specs, self._defaults = converted[0], _plain_defaults(converted[1])
            return converted

        @functools.wraps(compile_call)
        def record_compiled(callable_: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            begun = self.ptx.begin()
            with _asked_for_tvm_ffi(callable_, kwargs.get("options")) as requested:
                try:
                    self._specs = None
                    compiled = compile_call(callable_, *args, **kwargs)
                except Exception as error:
                    if _NO_TENSOR not in str(error):
                        raise
                    raise SourceError(
                        "this kernel takes only pointers, and only a tensor argument provides the caller's stream:"
                        " compile it with make_fake_stream(), without use_tvm_ffi_env_stream, and pass a stream"
                        " to the call"
                    ) from None
                finally:
                    self._depth -= 1
            if self._depth == 0:
                signature = None if self._specs is None else signature_of(self._specs, self._pointers)
                native = None if requested else self._defaults
                self._caught.append(Caught(compiled, signature, native, self.ptx.path_since(begun)))
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
    """Whether a call of ``cute.compile`` itself enables TVM-FFI, by its options or by those in brackets.

    The variable that enables it in every call changes the options in brackets: they are restored.
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
    """The signature of a compiled object, from the compiler's description of its arguments.

    The description lacks the dtype and the alignment of pointers: ``pointers`` has them, by name.
    """
    symbols = _Symbols(pointers)
    return Signature(arguments=tuple(_argument(spec, symbols) for spec in specs), symbols=symbols.table)


def _pointers(values: Mapping[str, Any], converter: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """The pointers among the arguments of a compilation: the compiler's name, dtype and alignment of each."""
    for name, value in values.items():
        if isinstance(value, (tuple, list)):
            yield from _pointers({f"{name}[{i}]": item for i, item in enumerate(value)}, converter)
        elif isinstance(value, converter.Pointer):
            dtype = converter.NumericToTVMFFIDtype.get(value.dtype, "")
            yield name, (dtype, int(getattr(value, "_assumed_align", 0)))


class _Symbols:
    """Names for sizes that are known only at the call. A size that occurs twice has one name."""

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
            f"argument {getattr(spec, 'name', '?')!r}: the compiler describes it as {kind}, which is not supported"
        )
    return Argument(name=spec.name, kind=named[kind])
