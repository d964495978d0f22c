"""The pages of the Python interface: the public names of three modules, with their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

from page_parts import NOTE, docstring, fenced, table

WIDTH = 88
HEAD = """\
# The Python interface

Each public name, from its docstring, on a page of its own. The examples are run by the tests."""
MODULES = {
    "precast.loader": "What a program calls. Importing it imports neither torch nor TVM-FFI nor any cache.",
    "precast.loader.attach": "Other libraries' own front ends, with kernels from caches ([attach](../attach.md)).",
    "precast.kernels": "What a kernel author declares ([authoring](../authoring.md)). It imports no compiler.",
}
FOLDER = "python"
"""Where the pages of single names are, beside the page of all."""


def page() -> str:
    """The page of all names: a table of each module's functions, one of its classes, and its errors."""
    return "\n\n".join([HEAD, *(part for name, text in MODULES.items() for part in _module(name, text))]) + "\n" + NOTE


def pages() -> dict[str, str]:
    """The page of each function and of each class, by the name of its file in ``FOLDER``."""
    return {
        _file(name, one): _linked("\n\n".join([f"# `{_short(name, one)}`", *text(one, value)]), name) + "\n" + NOTE
        for name in MODULES
        for text, known in ((_function, _functions(name)), (_class, _classes(name)))
        for one, value in known
    }


def _module(name: str, text: str) -> Iterator[str]:
    yield f"## `{name}`"
    yield text
    for noun, known in (("function", _functions(name)), ("class", _classes(name))):
        if known:
            rows = [(f"[`{one}`]({FOLDER}/{_file(name, one)})", _sentence(value)) for one, value in known]
            yield table((noun, ""), rows)
    others = [one for one, value in _public(name) if not inspect.isfunction(value) and not inspect.isclass(value)]
    if others:
        yield "Also: " + ", ".join(f"`{one}`" for one in others) + "."
    errors = [pair for pair in _public(name) if inspect.isclass(pair[1]) and issubclass(pair[1], BaseException)]
    if errors:
        yield f"### Errors of `{name}`"
        yield "\n".join(f"- `{one}` ({_bases(value)}{_code(value)}): {_first(_doc(value))}" for one, value in errors)


def _public(module: str) -> list[tuple[str, Any]]:
    """The public names; a module among them has a section of its own."""
    known = importlib.import_module(module)
    named = [(one, getattr(known, one)) for one in known.__all__]
    return [(one, value) for one, value in named if not inspect.ismodule(value)]


def _functions(module: str) -> list[tuple[str, Any]]:
    return [pair for pair in _public(module) if inspect.isfunction(pair[1])]


def _classes(module: str) -> list[tuple[str, Any]]:
    return [pair for pair in _public(module) if inspect.isclass(pair[1]) and not issubclass(pair[1], BaseException)]


def _short(module: str, name: str) -> str:
    """A name as a program has it.

    >>> _short("precast.loader", "get"), _short("precast.loader.attach", "Seam")
    ('loader.get', 'attach.Seam')
    """
    return f"{module.rpartition('.')[2]}.{name}"


def _file(module: str, name: str) -> str:
    return f"{_short(module, name)}.md"


def _function(name: str, value: Any) -> Iterator[str]:
    yield fenced("python", _wide(name, value))
    yield docstring(value.__doc__)


def _class(_: str, value: Any) -> Iterator[str]:
    yield docstring(_doc(value))
    yield from _methods(value)


def _sentence(value: Any) -> str:
    """The first sentence of a docstring, for a cell."""
    return re.split(r"(?<=\.)\s", _first(inspect.cleandoc(value.__doc__ or "")))[0]


def _linked(text: str, module: str) -> str:
    """A page whose *See also* leads to the pages of other names of the module, or of the loader."""
    modules = ("precast.loader", module)
    near = {one: _file(name, one) for name in modules for one, _ in (*_functions(name), *_classes(name))}

    def link(name: re.Match[str]) -> str:
        return f"[{name[0]}]({near[name[1]]})" if name[1] in near else name[0]

    names = r"`(?:precast\.loader\.)?(\w+)`"
    return re.sub(r"^See also: .*$", lambda line: re.sub(names, link, line[0]), text, flags=re.MULTILINE)


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
        yield "## Methods and properties"
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
