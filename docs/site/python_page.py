"""The page of the Python interface: the public names of three modules, with their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

from page_parts import NOTE, docstring, fenced

WIDTH = 88
HEAD = """\
# The Python interface

Each public name, from its docstring. The examples are run by the tests."""
MODULES = {
    "precast.loader": "What a program calls. Importing it imports neither torch nor TVM-FFI nor any cache.",
    "precast.loader.attach": "Other libraries' own front ends, with kernels from caches ([attach](../attach.md)).",
    "precast.kernels": "What a kernel author declares ([authoring](../authoring.md)). It imports no compiler.",
}


def page() -> str:
    """The whole page."""
    return "\n\n".join([HEAD, *(part for name, text in MODULES.items() for part in _module(name, text))]) + "\n" + NOTE


def _module(name: str, text: str) -> Iterator[str]:
    yield f"## `{name}`"
    yield text
    module = importlib.import_module(name)
    known = [(one, getattr(module, one)) for one in module.__all__]
    known = [(one, value) for one, value in known if not inspect.ismodule(value)]  # attach has a section of its own
    functions = [pair for pair in known if inspect.isfunction(pair[1])]
    classes = [pair for pair in known if inspect.isclass(pair[1]) and not issubclass(pair[1], BaseException)]
    errors = [pair for pair in known if inspect.isclass(pair[1]) and issubclass(pair[1], BaseException)]
    for one, value in functions:
        yield f"### `{one}`"
        yield fenced("python", _wide(one, value))
        yield docstring(value.__doc__)
    for one, value in classes:
        yield f"### `{one}`"
        yield docstring(_doc(value))
        yield from _methods(value)
    others = [one for one, value in known if not inspect.isfunction(value) and not inspect.isclass(value)]
    if others:
        yield "Also: " + ", ".join(f"`{one}`" for one in others) + "."
    if errors:
        yield f"### Errors of `{name}`"
        yield "\n".join(f"- `{one}` ({_bases(value)}{_code(value)}): {_first(_doc(value))}" for one, value in errors)


def _methods(cls: type) -> Iterator[str]:
    """The public methods and properties that a class itself defines."""
    shown = []
    for name, value in vars(cls).items():
        method = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if name.startswith("_") or not (isinstance(value, property) or isinstance(method, types.FunctionType)):
            continue
        text = inspect.getdoc(value)
        if text:
            shown.append(f"- `{name}{'' if isinstance(value, property) else signature(method)}`: {_first(text)}")
    if shown:
        yield "\n".join(shown)


def signature(function: Any) -> str:
    """A signature with its annotations as they stand in the source.

    >>> def f(self, a: int, *, b: str = "x") -> None: ...
    >>> signature(f)
    "(a: int, *, b: str = 'x') -> None"
    """
    return str(_asked(function))


def _wide(name: str, function: Any) -> str:
    """A whole definition; one that is wider than a page has a line for each parameter."""
    asked = _asked(function)
    if len(f"def {name}{asked}: ...") <= WIDTH:
        return f"def {name}{asked}: ..."
    lines, kind = [], None
    for one in asked.parameters.values():
        if one.kind == one.KEYWORD_ONLY != kind:
            lines.append("    *,")
        lines.append(f"    {one},")
        kind = one.kind
    return "\n".join([f"def {name}(", *lines, f") -> {asked.return_annotation!r}: ..."])


def _asked(function: Any) -> inspect.Signature:
    """Its signature, without ``self``, and with annotations that are printed as words."""
    asked = inspect.signature(function)
    kept = [p for name, p in asked.parameters.items() if name not in ("self", "cls")]
    named = [p.replace(annotation=_as_written(p.annotation)) for p in kept]
    return asked.replace(parameters=named, return_annotation=_as_written(asked.return_annotation))


def _as_written(annotation: Any) -> Any:
    return _Words(annotation) if isinstance(annotation, str) else annotation


class _Words:
    """An annotation that is printed without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _doc(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _first(text: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`")


def _code(error: type) -> str:
    """The code of an error, with its place on the page of errors."""
    code = getattr(error, "code", "")
    return f"; [{code}](../errors.md#{code.lower()})" if code else ""


def _bases(error: type) -> str:
    return ", ".join(f"`{base.__name__}`" for base in error.__bases__)
