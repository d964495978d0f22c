"""Steady globals: those of a module that its source binds once, to a constant, a function or a class.

They have the same value in every process that imports the same source, unless a program changes them. A global that a
call makes, or that depends on what is installed, is not steady: it may well differ where a kernel is served. Nor is a
list or a table without items, which is filled as programs run. Likewise for what a class binds.
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
_EMPTY = ("[]", "{}")
_MOST_IMPORTS = 10  # of a name, from module to module
_BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While)


def is_steady(module: str, name: str) -> bool:
    """Whether a module's source binds a name once, to what is the same in every process.

    >>> is_steady(__name__, "is_steady"), is_steady(__name__, "_CONSTANT"), is_steady("sys", "path")
    (True, False, False)
    """
    return _steady(module, name, frozenset())


def takes_constants(module: str, name: str) -> bool:
    """Whether a module's source binds a name once, to a function whose defaults are constants, and so is what its
    decorators take, or what is called to make it. Others may be numbers of the DSL, which are plain ones without it.

    >>> takes_constants(__name__, "takes_constants"), takes_constants(__name__, "no_such_function")
    (True, False)
    """
    home, node = _definition(module, name)
    function = isinstance(node, ast.FunctionDef) or isinstance(getattr(node, "value", None), ast.Call)
    return node is not None and function and all(_is_constant(home, value, frozenset()) for value in _taken(node))


def is_decorated(module: str, name: str) -> bool:
    """Whether a module's source binds a name once, to a function or a class with decorators.

    >>> is_decorated(__name__, "_tree"), is_decorated(__name__, "is_decorated")
    (True, False)
    """
    return bool(getattr(_definition(module, name)[1], "decorator_list", ()))


def _definition(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """What binds a name once, in the module that others import it from."""
    for _ in range(_MOST_IMPORTS):
        bound = _bound(module, name)
        if len(bound) != 1:
            break
        if not isinstance(node := bound[0], ast.ImportFrom):
            return module, node
        module, name = _origin(module, node) or "", _original(node, name)
    return module, None


def _taken(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a function's defaults and of what its decorators take, or of what is called to make it."""
    calls: list[ast.expr] = [node.value] if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.FunctionDef):
        yield from (value for value in (*node.args.defaults, *node.args.kw_defaults) if value is not None)
        calls = node.decorator_list
    for call in calls:
        if isinstance(call, ast.Call):
            yield from (*call.args, *(keyword.value for keyword in call.keywords))


def origin_of(module: str, name: str) -> str | None:
    """The module that a name is imported from; None for one that the module itself binds."""
    bound = _bound(module, name)
    return _origin(module, bound[0]) if len(bound) == 1 and isinstance(bound[0], ast.ImportFrom) else None


def _steady(module: str, name: str, before: frozenset[tuple[str, str]]) -> bool:
    bound = _bound(module, name)
    if len(bound) != 1 or (module, name) in before:
        return False
    before |= {(module, name)}
    node = bound[0]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return not node.decorator_list or isinstance(node, ast.FunctionDef)
    if isinstance(node, ast.ImportFrom):
        origin = _origin(module, node)
        return origin is not None and _steady(origin, _original(node, name), before)
    value = getattr(node, "value", None)
    return value is not None and ast.unparse(value) not in _EMPTY and _is_constant(module, value, before)


def _is_constant(module: str, value: ast.expr, before: frozenset[tuple[str, str]]) -> bool:
    return all(
        isinstance(part, _CONSTANT) or (isinstance(part, ast.Name) and _steady(module, part.id, before))
        for part in ast.walk(value)
    )


def _original(node: ast.ImportFrom, name: str) -> str:
    """The name in the other module of what this one has under a name."""
    return next(alias.name for alias in node.names if (alias.asname or alias.name) == name)


def _origin(module: str, node: ast.ImportFrom) -> str | None:
    loaded = sys.modules.get(module)
    package = getattr(loaded, "__package__", None) or module
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return None


def _bound(module: str, path: str) -> list[ast.stmt]:
    """What binds a name at a module's top level, or ``Class.name`` in the body of a class."""
    owner, _, name = path.rpartition(".")
    return _bindings(module, owner).get(name, [])


@functools.cache
def _tree(module: str) -> ast.Module:
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return ast.parse(Path(file).read_bytes() if isinstance(file, str) and file.endswith(".py") else b"")
    except (OSError, SyntaxError, ValueError):
        return ast.parse("")


@functools.cache
def _bindings(module: str, owner: str = "") -> dict[str, list[ast.stmt]]:
    """What binds each name at a module's top level, or in a class. One that a block binds counts twice: which it is may
    depend."""
    bindings: dict[str, list[ast.stmt]] = {}
    classes = _bound(module, owner) if owner else [_tree(module)]
    bodies = [node.body for node in classes if isinstance(node, (ast.ClassDef, ast.Module))]
    for node in bodies[0] if len(bodies) == len(classes) == 1 else ():
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
