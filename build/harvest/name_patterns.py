"""Name patterns: how a library makes the name of a file from arguments, so that they can be read from the name.

The sources of the installed library are parsed, and not run. Only names from which every argument follows are read:
each parameter is an integer, a bool or a word, and is in the name.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INT, _BOOL = "(0|[1-9][0-9]{0,17})", "([01])"
_WORD, _LAST_WORD = "([0-9A-Za-z]{1,64})", "([0-9A-Za-z]{1,64}|sm_[0-9]{2,3}[af]?)"
_SIZE_LIMIT = 4 << 20
_Function = ast.FunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePattern:
    """The names of the files of one function: its location, their folder, and a pattern with a group for each argument.

    >>> types = {"k": int, "p": bool}
    >>> names = NamePattern(function="lib:f", module="topk", pattern="k([0-9]+)_p([01])", arguments=types)
    >>> names.values("k8_p1"), names.values("k8")
    ({'k': 8, 'p': True}, None)
    """

    function: str
    module: str
    pattern: str
    arguments: Mapping[str, type]

    def values(self, name: str) -> dict[str, Any] | None:
        """The arguments that a name was made from; None if another function made it."""
        match = re.fullmatch(self.pattern, name, re.ASCII)
        if match is None:
            return None
        return {
            argument: text if kind is str else kind(int(text))
            for (argument, kind), text in zip(self.arguments.items(), match.groups(), strict=True)
        }


def name_patterns(folder: Path, package: str, keep: str, *, without: tuple[str, ...] = ()) -> tuple[NamePattern, ...]:
    """The patterns of the functions in a package that pass a folder's name and a file's name to ``keep``."""
    patterns: list[NamePattern] = []
    for path in sorted(folder.rglob("*.py")):
        words = path.relative_to(folder).with_suffix("").parts
        module = ".".join((package, *words)).removesuffix(".__init__")
        if any(module == other or module.startswith(f"{other}.") for other in without):
            continue
        source = path.read_bytes()[:_SIZE_LIMIT]
        if keep.encode() in source:
            patterns += patterns_of(source, module, keep)
    return tuple(patterns)


def patterns_of(source: bytes, module: str, keep: str) -> Iterator[NamePattern]:
    """The patterns of the functions of one module.

    >>> text = b"def f(k: int, p: bool): return keep('topk', f'k{k}_p{int(p)}', None)"
    >>> [(names.function, names.pattern) for names in patterns_of(text, "lib.topk", "keep")]
    [('lib.topk:f', 'k(0|[1-9][0-9]{0,17})_p([01])')]
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    for function in tree.body:
        calls = [call for call in ast.walk(function) if isinstance(call, ast.Call) and _is_named(call.func, keep)]
        if isinstance(function, _Function) and len(calls) == 1 and len(calls[0].args) > 1:
            folder, name = calls[0].args[:2]
            pieces = _pieces(_assigned(name, function))
            prefix = folder.value if isinstance(folder, ast.Constant) else constants.get(getattr(folder, "id", ""))
            result = _pattern(pieces, function) if pieces else None
            if result and isinstance(prefix, str):
                path = f"{module}:{function.name}"
                yield NamePattern(function=path, module=prefix, pattern=result[0], arguments=result[1])


def _is_named(function: ast.expr, name: str) -> bool:
    return name in (getattr(function, "id", None), getattr(function, "attr", None))


def _assigned(value: ast.expr, function: _Function) -> ast.expr:
    """What a local name is assigned, if that is so once."""
    if not isinstance(value, ast.Name):
        return value
    assigned = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == value.id for target in node.targets)
    ]
    return assigned[0] if len(assigned) == 1 else value


def _pieces(value: ast.expr) -> list[ast.expr] | None:
    """The parts of a formatted text; None for any other expression."""
    return list(value.values) if isinstance(value, ast.JoinedStr) else None


def _pattern(pieces: list[ast.expr], function: _Function) -> tuple[str, dict[str, type]] | None:
    """The pattern of a formatted text, and the types of its groups; None if the name does not give every argument."""
    declared = (*function.args.args, *function.args.kwonlyargs)
    parameters = {parameter.arg: getattr(parameter.annotation, "id", "") for parameter in declared}
    rebound = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    texts, groups = [], {}
    for piece, after in itertools.zip_longest(pieces, pieces[1:]):
        if isinstance(piece, ast.Constant):
            texts.append(re.escape(str(piece.value)))
            continue
        argument = _argument(piece, parameters)
        if argument is None or argument[0] in groups or argument[0] in rebound or not _ends(argument[1], after):
            return None
        name, kind = argument
        groups[name] = kind
        texts.append(_BOOL if kind is bool else _INT if kind is int else _WORD if after else _LAST_WORD)
    variadic = function.args.vararg or function.args.kwarg or function.args.posonlyargs
    return ("".join(texts), groups) if groups.keys() == parameters.keys() and not variadic else None


def _argument(piece: ast.expr, parameters: Mapping[str, str]) -> tuple[str, type] | None:
    """The parameter that a formatted value shows, and its type."""
    if not isinstance(piece, ast.FormattedValue) or piece.conversion != -1 or piece.format_spec is not None:
        return None
    value, kinds = piece.value, {"int": int, "str": str}
    if isinstance(value, ast.Call) and _is_named(value.func, "int") and len(value.args) == 1 and not value.keywords:
        value, kinds = value.args[0], {"bool": bool}
    name = value.id if isinstance(value, ast.Name) else ""
    kind = kinds.get(parameters.get(name, ""))
    return (name, kind) if kind else None


def _ends(kind: type, after: ast.expr | None) -> bool:
    """Whether what follows a value in a name shows where the value ends."""
    if after is None:
        return True
    text = str(after.value) if isinstance(after, ast.Constant) else ""
    return text.startswith("_") if kind is str else text != "" and not text[0].isdigit()
