"""Compile sites: which functions of a module call the DSL's compiler, recognised by their code."""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Collection
from types import CodeType, FunctionType
from typing import Any

_MODULES = ("cute", "cute_ext")  # as programs import the DSL's modules that have ``compile``
_READS = ("LOAD_ATTR", "LOAD_METHOD")


def function_of(value: Any) -> FunctionType | None:
    """The function that a module's value is, below ``functools.cache`` and decorators; None for any other value.

    An object that answers to every attribute, such as a placeholder of another library, is not touched.

    >>> function_of(functools.cache(function_of)) is function_of, function_of(object())
    (True, None)
    """
    for _ in range(100):  # a circle of wrappers has no function
        if type(value) not in (FunctionType, functools._lru_cache_wrapper):
            return None
        inner = vars(value).get("__wrapped__")
        if inner is None:
            return value if isinstance(value, FunctionType) else None
        value = inner
    return None


def compiles(function: FunctionType, through: Collection[str] = ()) -> bool:
    """Whether a function calls ``cute.compile`` itself, or passes an inner function that does to one of ``through``.

    A function that replaces ``cute.compile``, as a monitor does, compiles nothing.

    >>> def compile_scale(cute): return lambda: cute.compile(8)
    >>> compiles(compile_scale), compiles(compile_scale(None)), compiles(lambda: None)
    (False, True, False)
    """
    code = function.__code__
    handing = any(name in (*code.co_names, *code.co_varnames) for name in through)
    return _calls_compile(code, inside=handing)


def _calls_compile(code: CodeType, *, inside: bool) -> bool:
    if "compile" in code.co_names:
        steps = list(dis.get_instructions(code))
        if any(step.opname == "STORE_ATTR" and step.argval == "compile" for step in steps):
            return False
        if any(
            step.opname in _READS and step.argval == "compile" and _loaded(before) in _MODULES
            for before, step in itertools.pairwise(steps)
        ):
            return True
    return inside and any(
        _calls_compile(constant, inside=True) for constant in code.co_consts if isinstance(constant, CodeType)
    )


def _loaded(step: dis.Instruction) -> str | None:
    """The name that an instruction leaves on the stack; Python 3.13 joins two instructions to one."""
    name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
    return name if "LOAD_" in step.opname and isinstance(name, str) else None
