"""Reading keys: the values that the forms of ``precast.attach.recordings.keys`` stand for.

A form names modules, classes and functions. A recording is trusted as code is, and may name any. What a cache holds may
name those of one package only: then nothing else is imported, and only classes are called.
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

from precast.attach.recordings.keys import DEPTH, DSL, UnknownKey, canonical, of_dsl_named
from precast.loader.contract.values import Immutable

_FAILURES = (ImportError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class _Reader(Immutable):
    """How a form is read: see ``decode``."""

    tensor: Callable[..., Any] | None
    makers: Mapping[str, Callable[..., Any]]
    package: str | None

    def named(self, name: str, kind: Callable[[Any], bool]) -> Any:
        """The value at ``module:name``. With a package, that package must define it, and it must be of the kind."""
        if self.package is None:
            return find(name)
        _check_below(name.partition(":")[0], self.package, name)
        value = find(name)
        _check_below(str(getattr(value, "__module__", "")), self.package, name)
        if not kind(value):
            raise UnknownKey(f"{name[:80]!r} is not of the kind that its form needs")
        return value


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
        What ``encode`` returned.
    tensor
        Makes a tensor from dtype, sizes, strides and ``requires_grad``.
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
            " install the versions that it was recorded with"
        ) from error


def find(path: str) -> Any:
    """The value at ``module:name``.

    >>> find("json:dumps").__name__
    'dumps'
    """
    module, _, name = path.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def original_of(path: str) -> Callable[..., Any]:
    """The compile function itself at ``module:name``, below every cache; for the builder.

    >>> original_of("json:dumps").__name__
    'dumps'
    """
    original: Callable[..., Any] = inspect.unwrap(find(path))
    return original


def _check_below(module: str, package: str, path: str) -> None:
    if module != package and not module.startswith(f"{package}."):
        raise UnknownKey(f"{path[:80]!r} is not in the package {package}")


def _is_enum(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, enum.Enum)


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _is_dataclass(value: Any) -> bool:
    return isinstance(value, type) and dataclasses.is_dataclass(value)


def _is_reference(value: Any) -> bool:
    return isinstance(value, (type, FunctionType))


def _decode(form: Any, depth: int, reader: _Reader) -> Any:
    if depth > DEPTH + 1:
        raise UnknownKey(f"a key nests deeper than {DEPTH} levels: correct the recording")
    if isinstance(form, str):
        return _decode_text(form, reader) if form.startswith("$") else form
    if not isinstance(form, (list, tuple)):
        return form
    inner = functools.partial(_decode, depth=depth + 1, reader=reader)
    head = form[0] if form and isinstance(form[0], str) and form[0].startswith("$") else None
    tag, _, name = (head or "").partition(":")
    rest = form[1:]
    if head is None or tag not in ("$list", "$dict", "$namedtuple", "$dataclass", "$made", "$tensor"):
        return tuple(map(inner, form))
    if tag == "$list":
        return list(map(inner, rest))
    if tag == "$dict":
        return {inner(name): inner(item) for name, item in rest}
    if tag == "$namedtuple":
        return reader.named(name, _is_namedtuple)(*map(inner, rest))
    if tag == "$dataclass":
        return _dataclass(reader.named(name, _is_dataclass), {field: inner(item) for field, item in rest})
    if tag == "$made":
        if name not in reader.makers:
            raise UnknownKey(f"{name[:80]!r} is not a maker of this library: correct the recording")
        return reader.makers[name](*map(inner, rest))
    if reader.tensor is None:
        raise UnknownKey("a tensor is not allowed here, only plain values: correct the recording")
    dtype, sizes, strides, requires_grad = rest
    return reader.tensor(dtype, list(sizes), list(strides), requires_grad)


def _dataclass(kind: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass with these values, also in fields that its constructor computes or a program has set."""
    names = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(values.keys() - names):  # of a hostile file, such as __class__
        raise UnknownKey(f"{kind.__qualname__} has no field {unknown[0][:80]!r}: correct the recording")
    initial = [field.name for field in dataclasses.fields(kind) if field.init]
    value = kind(**{name: values[name] for name in initial if name in values})
    for name, item in values.items():
        if name not in initial or getattr(value, name) is not item:
            object.__setattr__(value, name, item)
    return value


def _decode_text(form: str, reader: _Reader) -> Any:
    tag, _, rest = form.partition(":")
    if tag == "$str":
        return rest
    if tag == "$float":
        return float(rest)
    if tag == "$ref":
        return reader.named(rest, _is_reference)
    if tag == "$enum":
        path, _, member = rest.rpartition(".")
        return reader.named(path, _is_enum)[member]
    if tag == "$device":
        return importlib.import_module("torch").device(rest)
    if tag == "$torch":
        torch = importlib.import_module("torch")
        dtype = getattr(torch, rest)
        if not isinstance(dtype, torch.dtype):
            raise UnknownKey(f"torch.{rest[:80]} is not a dtype: correct the recording")
        return dtype
    if tag == f"${DSL}":
        return _of_dsl_named(rest)
    raise UnknownKey(f"{form[:80]!r} is not a form of a value: correct the recording")


def _of_dsl_named(name: str) -> Any:
    value = of_dsl_named(name, _imported)
    if value is None:
        raise UnknownKey(f"the DSL has no {name}: build with the DSL of the recording")
    return value


def _imported(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
