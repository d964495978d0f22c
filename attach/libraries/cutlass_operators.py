"""CUTLASS operators: every operator compiles through one method, whose arguments say what its kernel is compiled for.

A key has the operator's name, a digest of its metadata, the tensors as the compiler sees them, the target that the
caller named, and the other arguments. A recording holds the arguments of the operator beside it, and the build
compiles the operator for them. The operators are part of the DSL's own package: without the DSL they do not exist.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from precast.attach.compiler.dsl import Answers, answered_by, tracked_compile
from precast.attach.library import KernelSource, Library, Seam
from precast.attach.recordings.keys import UnknownKey, canonical, encode
from precast.loader.contract.import_hook import after_import
from precast.loader.contract.values import Immutable

_MODULE, _BASE = "cutlass.operators.providers.cutedsl.operator", "cutlass.operators.base"
_PATH = f"{_MODULE}:CuteDslOperator.cute_compile"


class _Compilation(Immutable, kw_only=True):
    """What an operator passes to its compiler."""

    operator: Any
    entry: Any
    arguments: tuple[Any, ...]
    target: Any


class OperatorCompile(Seam):
    """The method through which every operator compiles, and the one that has the caller's arguments."""

    def install(self, attachment: KernelSource, library: Library) -> None:
        calls = threading.local()

        def note_arguments(module: ModuleType) -> None:
            operator: Any = vars(module)["Operator"]
            original = operator.compile

            @functools.wraps(original)
            def compile_(self: Any, args: Any, target_sm: Any = None) -> Any:
                outer, calls.arguments = getattr(calls, "arguments", None), args
                try:
                    return original(self, args, target_sm)
                finally:
                    calls.arguments = outer

            operator.compile = compile_

        def noted_arguments() -> Mapping[str, Any]:
            arguments = getattr(calls, "arguments", None)
            if arguments is None:
                raise UnknownKey("the operator was compiled outside of its compile(), whose arguments a build needs")
            return {"arguments": encode(arguments, tensors=True, describe=_describe_arguments)}

        def serve(module: ModuleType) -> None:
            operator: Any = vars(module)["CuteDslOperator"]
            original = operator.cute_compile

            @functools.wraps(original)
            def cute_compile(self: Any, entry: Any, *args: Any, target_sm: Any = None) -> Any:
                key = _Compilation(operator=self, entry=entry, arguments=args, target=target_sm)
                kernel = attachment.obtain(library, _PATH, {"key": key}, call=noted_arguments)
                with tracked_compile() if kernel is None else answered_by(Answers([kernel])):
                    return original(self, entry, *args, target_sm=target_sm)

            operator.cute_compile = cute_compile

        after_import({_BASE: note_arguments, _MODULE: serve})

    def late(self, attachment: KernelSource, library: Library) -> str | None:
        """Never: a method is looked up in its class at each call."""
        return None


def describe(value: Any, notes: Mapping[str, Any] | None = None) -> tuple[str, tuple[Any, ...]] | None:
    """The form of a compilation; None for any other value."""
    if not isinstance(value, _Compilation):
        return None
    operator, entry = value.operator, value.entry
    if not _uses_tvm_ffi():
        raise UnknownKey("operators without TVM-FFI take other arguments than a cache's kernels: keep TVM-FFI on")
    if entry is not getattr(operator, "impl", None):
        raise UnknownKey(f"{type(operator).__qualname__} compiles something else than its implementation")
    if not type(entry).__module__.startswith("cutlass.operators."):
        raise UnknownKey(f"{type(entry).__qualname__} is not in cutlass.operators, whose files guard its keys")
    if operator.metadata.epilogue is not None:
        raise UnknownKey("an operator with an epilogue is made from the caller's function, which cannot be a key")
    metadata = hashlib.sha256(canonical(encode(operator.metadata)).encode()).hexdigest()[:32]
    target = None if value.target is None else str(value.target)
    return "compilation", (operator.metadata.operator_name, metadata, target, type(entry), *_forms(value.arguments))


def _uses_tvm_ffi() -> bool:
    return bool(importlib.import_module("cutlass.operators.config").GlobalOptions().use_tvm_ffi)


def _forms(arguments: tuple[Any, ...]) -> list[Any]:
    """Arguments of the compiler as plain values; a symbol is its width, its divisibility and its number."""
    symbols: list[Any] = []

    def size(value: Any) -> Any:
        if isinstance(value, int):
            return value
        if not any(symbol is value for symbol in symbols):
            symbols.append(value)
        return value.width, value.divisibility, next(n for n, symbol in enumerate(symbols) if symbol is value)

    def form(value: Any) -> Any:
        value = getattr(value, "compile_time_tensor", value)
        kind = type(value).__name__
        if kind == "_FakeTensor":
            dtype, space, align = value.__cache_key__[:3]
            return kind, dtype, str(space), align, tuple(map(size, value.shape)), tuple(map(size, value.stride))
        return (kind, value.use_tvm_ffi_env_stream) if kind == "_FakeStream" else value

    return [form(value) for value in arguments]


def _describe_arguments(value: Any) -> tuple[str, tuple[Any, ...]] | None:
    """How to make an operator's arguments again, on tensors without memory."""
    if type(value).__name__ == "TensorWrapper":
        return "tensor", (value.runtime_tensor,)
    if hasattr(value, "performance") and not isinstance(value, type):
        if value.performance is not None:
            raise UnknownKey("performance controls of an operator cannot be recorded")
        return "arguments", (type(value), *((k, v) for k, v in vars(value).items() if k != "performance"))
    return None


def compile_recorded(key: Any, arguments: Any) -> Any:
    """The compiled object of a key, in a worker: the operator of that name compiles for the recorded arguments."""
    ops = importlib.import_module("cutlass.operators")
    _, name, _, target, *_ = key
    here = target or os.environ["CUTE_DSL_ARCH"].removeprefix("sm_")
    filtered = ops.get_operators(arguments, metadata_filter=lambda data: data.operator_name == name, target_sm=here)
    for operator in filtered:
        original = operator.cute_compile

        def checked(entry: Any, *args: Any, target_sm: Any = None, original: Any = original, of: Any = operator) -> Any:
            compilation = _Compilation(operator=of, entry=entry, arguments=args, target=target_sm)
            if canonical(encode(compilation, describe=describe)) != canonical(key):
                raise UnknownKey(f"{name}: the recorded call has another key here: record it again")
            return original(entry, *args, target_sm=target_sm)

        operator.cute_compile = checked
        return operator.compile(arguments, target).compiled_obj
    raise UnknownKey(f"CUTLASS has no operator {name} for sm_{here} and these arguments: record it again")


LIBRARY = Library(
    name="cutlass_operators",
    distribution="nvidia-cutlass-operators",
    package="cutlass.operators",
    seams=(OperatorCompile(),),
    describe=describe,
    makers={"tensor": lambda tensor: tensor, "arguments": lambda kind, *named: kind(**dict(named))},
    compile_recorded=compile_recorded,
)
