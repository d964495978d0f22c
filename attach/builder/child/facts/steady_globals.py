"""Steady globals: those of a module that its source binds once, to a constant, a function or a class.

They have the same value in every process that imports the same source, unless a program changes them. A global that a
call makes, or that depends on what is installed, is not steady: it may well differ where a kernel is served.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

_CONSTANT = (
    ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Starred, ast.expr_context,
    ast.operator, ast.unaryop,
)  # fmt: skip
_BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While)


def is_steady(module: str, name: str) -> bool:
    """Whether a module's source binds a name once, to what is the same in every process.

    >>> is_steady(__name__, "is_steady"), is_steady(__name__, "_CONSTANT"), is_steady("sys", "path")
    (True, False, False)
    """
    return _steady(module, name, frozenset())


def origin_of(module: str, name: str) -> str | None:
    """The module that a name is imported from; None for one that the module itself binds."""
    bound = _bindings(module).get(name, [])
    return _origin(module, bound[0]) if len(bound) == 1 and isinstance(bound[0], ast.ImportFrom) else None


def _steady(module: str, name: str, before: frozenset[tuple[str, str]]) -> bool:
    bound = _bindings(module).get(name, [])
    if len(bound) != 1 or (module, name) in before:
        return False
    before |= {(module, name)}
    node = bound[0]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return not node.decorator_list or isinstance(node, ast.FunctionDef)
    if isinstance(node, ast.ImportFrom):
        origin = _origin(module, node)
        original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        return origin is not None and _steady(origin, original, before)
    value = getattr(node, "value", None)
    return value is not None and all(
        isinstance(part, _CONSTANT) or (isinstance(part, ast.Name) and _steady(module, part.id, before))
        for part in ast.walk(value)
    )


def _origin(module: str, node: ast.ImportFrom) -> str | None:
    loaded = sys.modules.get(module)
    package = getattr(loaded, "__package__", None) or module
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return None


@functools.cache
def _bindings(module: str) -> dict[str, list[ast.stmt]]:
    """What binds each name at a module's top level. One that a block binds counts twice: which it is may depend."""
    file = getattr(sys.modules.get(module), "__file__", None)
    bindings: dict[str, list[ast.stmt]] = {}
    try:
        tree = ast.parse(Path(file).read_bytes()) if isinstance(file, str) and file.endswith(".py") else None
    except (OSError, SyntaxError, ValueError):
        tree = None
    for node in tree.body if tree is not None else ():
        for name in _names(node):
            bindings.setdefault(name, []).append(node)
        if isinstance(node, _BLOCKS):
            inside = [inner for inner in ast.walk(node) if isinstance(inner, ast.stmt)]
            for name in {name for inner in inside for name in _names(inner)}:
                bindings.setdefault(name, []).extend((node, node))
    return bindings


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete)):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
