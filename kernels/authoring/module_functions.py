"""Functions that ``@kernel`` takes from the module of the kernel, by their names.

A helper may have such a name for another purpose. So only what is defined in the module itself, with the parameters of
the contract, is taken, and only by its one kernel: anything else is an error, which a value in the decorator settles.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.schema import name_of

ATTRIBUTE = "__precast__"
"""Where a function has its declaration."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "supports": ("config", "target"),
    "problems": ("config",),
    "inputs": ("config", "problem", "device", "seed"),
    "large": ("config",),
    "reference": ("config", "inputs"),
    "tolerance": ("config",),
    "cost": ("config", "problem"),
    "tile": ("config", "target"),
    "peer": ("config", "inputs"),
}
"""The functions that are taken, and their parameters."""

_ALIKE = 0.8  # of difflib's ratio: one wrong letter, or an "s" too many


def with_module_functions(
    function: Callable[..., Any], written: Mapping[str, Any], outputs: Sequence[str] = ()
) -> dict[str, Any]:
    """What ``@kernel`` was given, with the module's function, or None, for each that was left out (``...``).

    >>> def cost(config, problem): ...
    >>> def double(dtype: str): ...
    >>> with_module_functions(double, {"cost": ..., "tile": ...})["cost"] is cost
    True
    >>> with_module_functions(double, {"cost": None, "tile": ...})
    {'cost': None, 'tile': None}
    """
    left_out = [name for name, value in written.items() if value is ...]
    functions = {**written, **dict.fromkeys(left_out)}
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType) or "<locals>" in plain.__qualname__:
        return functions  # a function inside of another, whose module is another's
    defined = _defined_beside(plain)
    for name in left_out:
        if name in defined:
            _check(plain, name, defined)
            functions[name] = defined[name]
        else:
            _check_spelling(plain, name, defined, written)
    if "reference" in left_out and functions["reference"] is not None:
        _check_complete(plain, {**functions, "outputs": outputs})
    return functions


def _defined_beside(function: FunctionType) -> dict[str, FunctionType]:
    """The functions that a function's module defines; none that it imports."""
    return {
        name: value
        for name, value in function.__globals__.items()
        if isinstance(value, FunctionType) and value.__module__ == function.__module__
    }


def _check(function: FunctionType, name: str, defined: Mapping[str, FunctionType]) -> None:
    where, settled = name_of(function), f"write {name}={name} or {name}=None in the decorator"
    if _parameters(defined[name]) != PARAMETERS[name]:
        raise DeclarationError(
            f"{where}: {name} of its module takes ({', '.join(_parameters(defined[name]))}), not "
            f"({', '.join(PARAMETERS[name])}): rename it, or {settled}"
        )
    line = function.__code__.co_firstlineno  # kernels below are those of an earlier import, where a module is reloaded
    others = [each for each in defined.values() if hasattr(each, ATTRIBUTE) and each.__code__.co_firstlineno < line]
    if others:
        raise DeclarationError(f"{where}: its module has another kernel, {others[0].__name__}: {settled}")


def _check_spelling(
    function: FunctionType, name: str, defined: Mapping[str, FunctionType], written: Mapping[str, Any]
) -> None:
    meant = [
        other
        for other, value in defined.items()
        if other not in PARAMETERS and _parameters(value) == PARAMETERS[name] and value not in written.values()
    ]
    for other in difflib.get_close_matches(name, meant, n=1, cutoff=_ALIKE):
        raise DeclarationError(
            f"{name_of(function)}: its module has {other} and no {name}: rename it, or write {name}=None in the "
            "decorator"
        )


def _check_complete(function: FunctionType, functions: Mapping[str, Any]) -> None:
    """A reference without what it is compared on would never be used, and nothing would say so."""
    missing = [name for name in ("problems", "inputs", "outputs") if not functions[name]]
    if missing:
        raise DeclarationError(
            f"{name_of(function)}: its module has a reference, and verifying needs {' and '.join(missing)} too: "
            "add them, or write reference=None in the decorator"
        )


def _parameters(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
