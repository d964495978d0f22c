"""Schemas: the config keys of a function, read from its signature; and the call with the values of a config."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from precast.kernels.authoring import dtypes, hints
from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.hints import Hint
from precast.loader.contract.format.config import Key, complete
from precast.loader.contract.format.patterns import NAME
from precast.loader.errors import ConfigError

_LOOSE = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel function: its config key, and the form in which it takes the value."""

    key: Key
    hand: hints.Hand
    positional: bool


def keys_of(function: Callable[..., Any]) -> tuple[Key, ...]:
    """The config keys of a function, in the order of its parameters.

    >>> def norm(dtype: hints.DType, hidden: int, threads: hints.Tuned[int] = 128): ...
    >>> [(key.name, key.type, key.tuned, key.default) for key in keys_of(norm)]
    [('dtype', 'dtype', False, None), ('hidden', 'int', False, None), ('threads', 'int', True, 128)]
    """
    return tuple(p.key for p in parameters_of(function))


def call(function: Callable[..., Any], config: Mapping[str, object]) -> Any:
    """Call a function with a config: each value in the form of the function's hint, defaults filled in.

    >>> def tile(shape: tuple[int, ...], swizzle: bool = False): return shape, swizzle
    >>> call(tile, {"shape": [128, 64]})
    ((128, 64), False)
    """
    parameters = parameters_of(function)
    name = name_of(function)
    full = complete((p.key for p in parameters), config, op=name)
    args, kwargs = [], {}
    for parameter in parameters:
        key = parameter.key
        try:
            value = parameter.hand(full[key.name])
        except ConfigError as error:
            raise ConfigError(f"op {name!r}, config key {key.name}: {error}") from None
        if parameter.positional:
            args.append(value)
        else:
            kwargs[key.name] = value
    return function(*args, **kwargs)


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Every parameter of a function, read through wrappers, caches, partials and classes."""
    if not callable(function):
        raise DeclarationError(f"{function!r} is not callable: name a function")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        raise DeclarationError(
            f"{name_of(function)} has no Python signature, so its config keys are unknown: "
            "wrap it in a function with named parameters"
        ) from None
    names = _names(function)
    parameters = list(signature.parameters.values())
    if len(parameters) > 1 and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        parameters.pop()  # beside named parameters it takes what callers have too much
    return tuple(_parameter(function, p, names) for p in parameters)


def name_of(function: Callable[..., Any]) -> str:
    """A function's name for messages: ``module.function``.

    >>> import json
    >>> name_of(json.dumps)
    'json.dumps'
    """
    inner = _inner(function)
    module = getattr(inner, "__module__", None) or type(inner).__module__
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{module}.{name}"


def _inner(function: Any) -> Any:
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _names(function: Any) -> dict[str, Any]:
    """The names that a function's quoted hints may use: those of its module and its closure."""
    inner = _inner(function)
    if isinstance(inner, type):
        return dict(vars(sys.modules.get(inner.__module__, sys)))
    if not hasattr(inner, "__globals__"):
        inner = getattr(inner, "__func__", None) or getattr(type(inner).__call__, "__func__", type(inner).__call__)
    names = dict(getattr(inner, "__globals__", {}))
    code = getattr(inner, "__code__", None)
    for name, cell in zip(code.co_freevars if code else (), getattr(inner, "__closure__", None) or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # assigned later
            continue
    return names


def _parameter(function: Callable[..., Any], parameter: inspect.Parameter, names: Mapping[str, Any]) -> Parameter:
    location = f"{name_of(function)}: parameter {parameter.name!r}"
    if parameter.kind in _LOOSE:
        star = _LOOSE[parameter.kind]
        raise DeclarationError(f"{location}: {star}{parameter.name} hides the config keys: name each parameter")
    if not NAME.admits(parameter.name):
        raise DeclarationError(f"{location}: the name is not plain ASCII of at most 64 characters: rename it")
    try:
        if parameter.annotation is parameter.empty:
            hint = hints.unannotated(parameter.name, getattr(_inner(function), "__module__", None) or "")
        else:
            hint = hints.read(parameter.annotation, names)
    except DeclarationError as error:
        raise DeclarationError(f"{location}: {error}") from None
    hint = _by_default(hint, parameter.default)
    try:
        key = _key(parameter, hint)
    except ConfigError as error:
        raise DeclarationError(f"{location}: its default cannot be a config value: {error}") from None
    return Parameter(key, hint.hand, parameter.kind is parameter.POSITIONAL_ONLY)


def _by_default(hint: Hint, default: object) -> Hint:
    """The hint of a parameter whose type is unknown and whose default is a dtype."""
    if hint.type not in ("any", "any?"):
        return hint
    if dtypes.is_torch(default):
        return replace(hints.TORCH, tuned=hint.tuned)
    return replace(hints.CUTLASS, tuned=hint.tuned) if dtypes.is_cutlass(default) else hint


def _key(parameter: inspect.Parameter, hint: Hint) -> Key:
    key = Key(name=parameter.name, type=hint.type, tuned=hint.tuned, choices=hint.choices)
    if parameter.default is parameter.empty:
        return key
    default = parameter.default
    if default is None and not key.type.endswith("?"):
        choices = (*key.choices, None) if key.choices else ()
        key = replace(key, type=f"{key.type}?", choices=choices)
    if hint.type.startswith("dtype") and default is not None:
        default = dtypes.name_of(default)
    if isinstance(default, Enum):
        default = default.name
    return replace(key, has_default=True, default=key.normal(default))
