"""Reading keys: the values that the forms of ``precast.loader.contract.recordings.keys`` stand for.

A form names modules, classes and functions. A recording is trusted as code is, and may name any; what a cache says may
name those of one package: then nothing else is imported, and nothing but classes is called.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from precast.loader.contract.recordings.keys import DEPTH, DSL, UnknownKey, canonical
from precast.loader.contract.values import Immutable

# Where the DSL keeps what a key may name, in the order that decides between equal names.
_HOMES = (
    "cutlass", "cutlass.cute", "cutlass.cute.nvgpu", "cutlass.utils", "cutlass.pipeline", "cutlass.cute.arch",
    "cutlass.cute.nvgpu.warpgroup", "cutlass.cute.nvgpu.tcgen05", "cutlass.cute.nvgpu.warp", "cutlass.cute.typing",
)  # fmt: skip
_FAILURES = (ImportError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class _Reader(Immutable):
    """What decides how a form is read: see ``decode``."""

    tensor: Callable[..., Any] | None
    makers: Mapping[str, Callable[..., Any]]
    package: str | None

    def named(self, place: str, kind: Callable[[Any], bool]) -> Any:
        """What stands at ``module:name``. Of one package only, it must be a thing of that kind which that defines."""
        if self.package is None:
            return find(place)
        _check_below(place.partition(":")[0], self.package, place)
        found = find(place)
        _check_below(str(getattr(found, "__module__", "")), self.package, place)
        if not kind(found):
            raise UnknownKey(f"{place[:80]!r} is not what it is used as")
        return found


def decode(
    form: Any,
    *,
    tensor: Callable[..., Any] | None = None,
    makers: Mapping[str, Callable[..., Any]] | None = None,
    package: str | None = None,
) -> Any:
    """The value that a form stands for.

    Parameters
    ----------
    form
        What ``encode`` gave.
    tensor
        Makes a tensor of dtype, sizes, strides and ``requires_grad``.
    makers
        A library's own functions for what ``describe`` described.
    package
        The one package whose classes and functions the form may name; any, if None.

    >>> decode(["k", 128, ["$list", 1], "$float:inf"])
    ('k', 128, [1], inf)
    """
    try:
        return _decode(form, 0, _Reader(tensor, makers or {}, package))
    except UnknownKey:
        raise
    except _FAILURES as error:
        raise UnknownKey(
            f"{canonical(form)[:200]} cannot be made here ({type(error).__name__}: {error}): correct the recording, or"
            " install the versions that it was made with"
        ) from error


def find(place: str) -> Any:
    """What stands at ``module:name``.

    >>> find("json:dumps").__name__
    'dumps'
    """
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def original_of(place: str) -> Callable[..., Any]:
    """The compile function itself at ``module:name``, below every cache; for the builder.

    >>> original_of("json:dumps").__name__
    'dumps'
    """
    original: Callable[..., Any] = inspect.unwrap(find(place))
    return original


def _check_below(module: str, package: str, place: str) -> None:
    if module != package and not module.startswith(f"{package}."):
        raise UnknownKey(f"{place[:80]!r} is not of {package}")


def _is_enum(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, enum.Enum)


def _is_namedtuple(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")


def _is_dataclass(found: Any) -> bool:
    return isinstance(found, type) and dataclasses.is_dataclass(found)


def _is_reference(found: Any) -> bool:
    return isinstance(found, (type, FunctionType))


def _decode(form: Any, depth: int, reader: _Reader) -> Any:
    if depth > DEPTH + 1:
        raise UnknownKey(f"a key nests deeper than {DEPTH} levels: correct the recording")
    if isinstance(form, str):
        return _decode_text(form, reader) if form.startswith("$") else form
    if not isinstance(form, (list, tuple)):
        return form
    inner = functools.partial(_decode, depth=depth + 1, reader=reader)
    head = form[0] if form and isinstance(form[0], str) and form[0].startswith("$") else None
    tag, _, place = (head or "").partition(":")
    rest = form[1:]
    if head is None or tag not in ("$list", "$dict", "$namedtuple", "$dataclass", "$made", "$tensor"):
        return tuple(map(inner, form))
    if tag == "$list":
        return list(map(inner, rest))
    if tag == "$dict":
        return {inner(name): inner(item) for name, item in rest}
    if tag == "$namedtuple":
        return reader.named(place, _is_namedtuple)(*map(inner, rest))
    if tag == "$dataclass":
        return reader.named(place, _is_dataclass)(**{name: inner(item) for name, item in rest})
    if tag == "$made":
        if place not in reader.makers:
            raise UnknownKey(f"{place[:80]!r} makes no value of this library: correct the recording")
        return reader.makers[place](*map(inner, rest))
    if reader.tensor is None:
        raise UnknownKey("a tensor stands where only plain values may: correct the recording")
    dtype, sizes, strides, requires_grad = rest
    return reader.tensor(dtype, list(sizes), list(strides), requires_grad)


def _decode_text(form: str, reader: _Reader) -> Any:
    tag, _, rest = form.partition(":")
    if tag == "$str":
        return rest
    if tag == "$float":
        return float(rest)
    if tag == "$ref":
        return reader.named(rest, _is_reference)
    if tag == "$enum":
        place, _, member = rest.rpartition(".")
        return reader.named(place, _is_enum)[member]
    if tag == "$device":
        return importlib.import_module("torch").device(rest)
    if tag == "$torch":
        torch = importlib.import_module("torch")
        found = getattr(torch, rest)
        if not isinstance(found, torch.dtype):
            raise UnknownKey(f"torch.{rest[:80]} is not a dtype: correct the recording")
        return found
    if tag == f"${DSL}":
        return _of_dsl_named(rest)
    raise UnknownKey(f"{form[:80]!r} is not a form of a value: correct the recording")


def _of_dsl_named(name: str) -> Any:
    """A type or an enum's member of the DSL, by its last name; the first home that has it decides."""
    head, _, member = name.partition(".")
    for home in _HOMES:
        try:
            found = getattr(importlib.import_module(home), head, None)
        except ImportError:
            continue
        if isinstance(found, type):
            return getattr(found, member) if member else found
    raise UnknownKey(f"the DSL has no {name}: build with the DSL that the recording was made with")
