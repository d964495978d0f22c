"""Type hints: the type of a config key, and the form in which the function takes its value.

``DType`` and ``Tuned`` are the hints of precast itself:

>>> from precast.kernels.authoring.schema import keys_of
>>> def norm(dtype: DType, hidden: int, threads: Tuned[int] = 128): ...
>>> [(key.name, key.type, key.tuned) for key in keys_of(norm)]
[('dtype', 'dtype', False), ('hidden', 'int', False), ('threads', 'int', True)]
"""

from __future__ import annotations

import collections.abc
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, TypeVar

from precast.kernels.authoring import dtypes
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.contract.format.config import Value
from precast.loader.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Mark:
    meaning: str


_DTYPE, _TUNED = _Mark("dtype"), _Mark("tuned")

DType = Annotated[str, _DTYPE]
"""A dtype by its canonical name, such as ``"bfloat16"``. The type checker sees a ``str``."""

Tuned = Annotated[T, _TUNED]
"""A key among whose values the loader may choose. The type checker sees ``threads: Tuned[int]`` as an ``int``."""

Hand = Callable[[Any], Any]


def _as_is(value: Any) -> Any:
    return value


def _any(value: Any) -> Any:
    """The value of an untyped parameter, which may be written as in code: ``cutlass.BFloat16``, ``torch.bfloat16``."""
    if isinstance(value, str) and value.startswith("cutlass."):
        name = dtypes.CUTLASS_NAMES.get(value.removeprefix("cutlass."))
        return dtypes.to_cutlass(name) if name else value
    if isinstance(value, str) and value.startswith("torch."):
        try:
            return dtypes.to_torch(value)
        except ConfigError:
            return value
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Hint:
    """A type hint: the type of the config key, its choices, whether it is tuned, how it is passed."""

    type: str = "any"
    hand: Hand = _any
    tuned: bool = False
    choices: tuple[Value, ...] = ()


ANY = Hint()
TORCH = Hint("dtype", dtypes.to_torch)
CUTLASS = Hint("dtype", dtypes.to_cutlass)
OPTIONAL_CUTLASS = Hint("dtype?", lambda name: None if name is None else dtypes.to_cutlass(name))
_PLAIN: dict[Any, Hint] = {
    str: Hint("str", _as_is),
    int: Hint("int", _as_is),
    float: Hint("float", _as_is),
    bool: Hint("bool", _as_is),
    list: Hint("list[any]", list),
    tuple: Hint("list[any]", tuple),
}
# Libraries whose compile functions take the DSL's numeric classes, and None, in parameters without hints.
_DSL_LIBRARIES = ("quack",)
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
_NEVER = (collections.abc.Mapping, collections.abc.Set, bytes, bytearray, complex, type(None))
_CANNOT = "cannot be a config value: use str, int, float, bool, DType or lists of them"
_SCALARS = {"int": int, "uint": int, "float": float, "bfloat": float, "tfloat": float, "bool": bool}


def read(hint: object, names: Mapping[str, Any]) -> Hint:
    """What a hint says; strings in it are looked up in ``names``.

    >>> read(list[int], {}).type, read("int | None", {}).type, read(Tuned[int], {}).tuned
    ('list[int]', 'int?', True)
    """
    if isinstance(hint, typing.ForwardRef):
        hint = hint.__forward_arg__
    if isinstance(hint, str):
        return _read_text(hint, names)
    if isinstance(hint, typing.NewType):
        return read(hint.__supertype__, names)
    origin = typing.get_origin(hint)
    if origin is not None:
        return _read_generic(hint, origin, typing.get_args(hint), names)
    return _read_class(hint) if isinstance(hint, type) else ANY


def unannotated(parameter: str, module: str) -> Hint:
    """The hint of a parameter without one: a dtype where a known library calls it so, else any value.

    >>> unannotated("out_dtype", "quack.softmax").type, unannotated("out_dtype", "mine").type
    ('dtype?', 'any')
    """
    if module.partition(".")[0] in _DSL_LIBRARIES and (parameter == "dtype" or parameter.endswith("_dtype")):
        return OPTIONAL_CUTLASS
    return ANY


def _read_class(cls: type) -> Hint:
    if cls in _PLAIN:
        return _PLAIN[cls]
    if dtypes.is_torch_hint(cls):
        return TORCH
    if dtypes.is_cutlass(cls):
        name = dtypes.CUTLASS_NAMES.get(cls.__name__, "")
        kind = next((k for prefix, k in _SCALARS.items() if name.startswith(prefix)), None)
        return _PLAIN[kind] if kind else CUTLASS
    if issubclass(cls, Enum):
        return Hint("str", lambda name: cls[name], choices=tuple(cls.__members__))
    if issubclass(cls, _NEVER):
        raise DeclarationError(f"{cls.__name__} {_CANNOT}")
    return ANY


def _read_text(text: str, names: Mapping[str, Any]) -> Hint:
    """A quoted hint. Names imported for type checkers only cannot be looked up: dtypes are known by their text."""
    try:
        value = eval(text, dict(names))
    except Exception:
        if re.fullmatch(r"torch\.dtype", text):
            return TORCH
        if re.fullmatch(r"(?:typing\.)?[Tt]ype\[['\"]?cutlass\.(?:\w+\.)*Numeric['\"]?\]", text):
            return CUTLASS
        return ANY
    if isinstance(value, str) and value == text:
        return ANY
    return read(value, names)


def _read_generic(hint: object, origin: object, args: tuple[Any, ...], names: Mapping[str, Any]) -> Hint:
    if origin is Annotated:
        return _read_annotated(args, names)
    if origin is typing.Literal:
        return _read_literal(args)
    if origin in (typing.Union, types.UnionType):
        return _read_union(args, names)
    if origin in _LISTS:
        return _read_list(tuple if origin is tuple else list, args, names)
    if origin is type:
        return _type_of(args[0], names)
    if getattr(origin, "__name__", "") == "Constexpr":  # how the DSL marks compile-time constants
        return read(args[0], names)
    if isinstance(origin, type) and issubclass(origin, _NEVER):
        raise DeclarationError(f"{hint} {_CANNOT}")
    return ANY


def _type_of(inner: object, names: Mapping[str, Any]) -> Hint:
    """``type[X]``: a dtype where X is a numeric class of the DSL."""
    text = inner.__forward_arg__ if isinstance(inner, typing.ForwardRef) else inner
    if isinstance(text, str):
        return _read_text(f"type[{text}]", names)
    return CUTLASS if dtypes.is_cutlass(inner) else ANY


def _read_annotated(args: tuple[Any, ...], names: Mapping[str, Any]) -> Hint:
    result = read(args[0], names)
    if _DTYPE in args[1:]:
        result = Hint("dtype", _as_is)
    return replace(result, tuned=True) if _TUNED in args[1:] else result


def _read_literal(values: tuple[Any, ...]) -> Hint:
    types_ = {type(v).__name__ for v in values if v is not None}
    bad = types_ - {"str", "int", "bool"}
    if bad:
        raise DeclarationError(
            f"Literal of {', '.join(sorted(bad))} is not supported: use str, int, bool or None in it"
        )
    kind = types_.pop() if len(types_) == 1 else "any"
    return Hint(f"{kind}?" if None in values else kind, _as_is, choices=values)


def _read_union(args: tuple[Any, ...], names: Mapping[str, Any]) -> Hint:
    members = [read(a, names) for a in args if a is not type(None)]
    optional = len(members) < len(args)
    first = members[0]
    if len(members) == 1:
        result = first
    elif {m.type for m in members} == {"int", "float"}:
        result = replace(_PLAIN[float], tuned=any(m.tuned for m in members))
    elif all(m.type == first.type and m.hand is first.hand and not m.choices for m in members):
        result = first
    else:
        result = Hint(tuned=any(m.tuned for m in members))
    if not optional or result.type.endswith("?"):
        return result
    hand = result.hand
    return replace(
        result,
        type=f"{result.type}?",
        hand=lambda value: None if value is None else hand(value),
        choices=(*result.choices, None) if result.choices else (),
    )


def _read_list(make: type, args: tuple[Any, ...], names: Mapping[str, Any]) -> Hint:
    if make is tuple and (len(args) != 2 or args[1] is not Ellipsis):
        return _read_fixed(args, names)
    item = read(args[0], names)
    if item.choices:
        raise DeclarationError("a list of Literal cannot be checked: use list[str] or list[int]")
    return Hint(f"list[{item.type}]", lambda value: make(map(item.hand, value)), item.tuned)


def _read_fixed(args: tuple[Any, ...], names: Mapping[str, Any]) -> Hint:
    """``tuple[int, int]``: a list of exactly as many values."""
    items = [read(a, names) for a in args if a != ()]
    kinds = {i.type for i in items}

    def hand(value: Any) -> Any:
        if len(value) != len(items):
            raise ConfigError(f"expected {len(items)} values, got {len(value)}: write a list of {len(items)}")
        return tuple(item.hand(v) for item, v in zip(items, value, strict=True))

    return Hint(f"list[{kinds.pop() if len(kinds) == 1 else 'any'}]", hand, any(i.tuned for i in items))
