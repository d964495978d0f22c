"""Where a program called ``cute.compile``, seen from inside the call, and why no seam covers that place."""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Mapping
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from precast.attach.recordings.untracked_compiles import LONGEST, UntrackedCompile

_PASSED = ("cutlass", "precast.attach", "functools", "contextlib")
_LIBRARIES = ("cutlass.operators", "cutlass.kernels")  # of kernels, though they stand inside the compiler's package


def untracked_compile(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> UntrackedCompile:
    """What a call of ``cute.compile`` compiles, and where that call is; this runs inside the call."""
    frame = _caller(sys._getframe(1))
    arguments = [_shown(value) for value in args[1:]]
    arguments += [f"{name}={_shown(value)}" for name, value in kwargs.items()]
    function, reason = ("?", "its caller is not Python") if frame is None else _judged(frame)
    return UntrackedCompile(
        place=function[:LONGEST],
        compiled=_name_of(args[0] if args else None)[:LONGEST],
        arguments=f"({', '.join(arguments)})"[:LONGEST],
        reason=reason[:LONGEST],
    )


def _caller(frame: FrameType | None) -> FrameType | None:
    """The frame of the library or program that called the DSL."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if _below(module, _LIBRARIES) or not _below(module, _PASSED):
            return frame
        frame = frame.f_back
    return None


def _below(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _qualified_name(frame: FrameType) -> str:
    """The name of a frame's function. In Python 3.10 its code does not hold it; a method's first argument leads to
    its class there."""
    code = frame.f_code
    if hasattr(code, "co_qualname"):
        return str(code.co_qualname)
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    for kind in (first if isinstance(first, type) else type(first)).__mro__:
        member = kind.__dict__.get(code.co_name)
        if getattr(getattr(member, "__func__", member), "__code__", None) is code:
            return f"{kind.__qualname__}.{code.co_name}"
    return code.co_name


def _judged(frame: FrameType) -> tuple[str, str]:
    """The path of a caller, and why no seam tracks what it compiles."""
    module, code = str(frame.f_globals.get("__name__", "?")), frame.f_code
    name = _qualified_name(frame)
    function = f"{module}:{name}"
    if module == "__main__":
        return (
            function,
            "it is a function of the program itself: move it to a module of a package, and declare a library for it",
        )
    if code.co_name == "<module>":
        return function, "it compiles while it is imported: move the compilation into a function"
    if not _stands_in(frame.f_globals, code):
        return function, "it is not a function of a module: declare a seam at the function that calls it"
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if any(hasattr(frame.f_locals.get(name), "data_ptr") for name in names):
        return (
            function,
            "it takes tensors, which cannot be a key: declare a seam at the function that has its plain values",
        )
    return function, f"declare Functions({module!r}, ({name!r},))"


def _stands_in(names: Mapping[str, Any], code: CodeType) -> bool:
    value = names.get(code.co_name)
    function = inspect.unwrap(value) if callable(value) else None
    return isinstance(function, FunctionType) and function.__code__ is code


def _name_of(compiled: object) -> str:
    if isinstance(compiled, MethodType):
        return f"{_name_of(compiled.__func__)} of a live object"
    if callable(compiled) and hasattr(compiled, "__qualname__"):
        return f"{getattr(compiled, '__module__', '?')}:{compiled.__qualname__}"
    return f"a live {type(compiled).__module__}:{type(compiled).__qualname__}"


def _shown(value: Any) -> str:
    """An argument as the DSL's own key has it, without addresses."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, type):
        return value.__name__
    key = getattr(value, "__cache_key__", None)
    if isinstance(key, tuple):
        sizes = [getattr(value, name, None) for name in ("shape", "stride")]
        if any(isinstance(part, tuple) for part in key) and all(isinstance(size, tuple) for size in sizes):
            key = (*(part for part in key if not isinstance(part, tuple)), *sizes)
        return f"{type(value).__name__.strip('_')}{_shown(key)}"
    if hasattr(value, "divisibility"):  # a symbol
        return f"?{{div={value.divisibility}}}"
    return type(value).__name__.strip("_")
