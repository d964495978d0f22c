"""Compiled source: a file with kernels, without the functions that only check, measure and tune them.

Such a function cannot change what a kernel is compiled to, so an edit of it rebuilds nothing. Everything that might is
left in place, and so are line breaks, since the line of an instruction is a part of what is compiled.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

CHECKS = frozenset(("cost", "inputs", "large", "peer", "problems", "reference", "tolerance"))
"""The arguments of ``@kernel`` that no compilation reads."""
COMPUTING = frozenset((
    "precast", "__future__", "abc", "collections", "cuda", "cutlass", "dataclasses", "enum", "functools", "itertools",
    "math", "operator", "typing",
))  # fmt: skip
"""Packages by which a module cannot read a file, such as its own."""
_DECLARES = re.compile(rb"^@(?:\w+\.)*kernel\(", re.MULTILINE)  # a library has thousands of files to parse otherwise
_MEANS = re.compile(
    rb"\b(?:open|exec|eval|globals|locals|vars|dir|load_module|_getframe|__(?:file|loader|spec|dict|builtins|import"
    rb"|globals|code|module|subclasses|getattribute)__)\b"
)
_Range = tuple[int, int]
_Node = ast.expr | ast.FunctionDef


def compiled_source(content: bytes) -> bytes:
    r"""The content of a file without the values of these arguments and the functions that serve only them.

    >>> compiled_source(b"def reference(x):\n    return x\n\n@kernel(op='add', tolerance=0.1)\ndef add(): ...\n")
    b"\n\n\n@kernel(op='add', tolerance=None)\ndef add(): ..."
    """
    if b"kernel(" not in content or not _DECLARES.search(content):
        return content
    try:
        content.decode()  # positions in the tree count bytes of UTF-8
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return content
    declarations = list(_declarations(tree))
    values = [value for call in declarations for value in _check_values(call)]
    nodes: list[_Node] = [*values, *_functions_of_checks(tree, values)] if declarations else []
    return _without(content, nodes) if nodes else content


def means_to_read(content: bytes) -> frozenset[str]:
    """The names in a file by which code could read files without an import.

    >>> means_to_read(b"def add(x): return open(x)")
    frozenset({'open'})
    """
    return frozenset(name.decode() for name in _MEANS.findall(content))


def _declarations(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of ``kernel`` that decorate a function of the module."""
    for statement in tree.body:
        for call in statement.decorator_list if isinstance(statement, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and any(keyword.arg == "op" for keyword in call.keywords):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
                if name == "kernel":
                    yield call


def _check_values(call: ast.Call) -> list[ast.expr]:
    """The values that evaluating cannot make anything but themselves."""
    plain = (ast.Constant, ast.Lambda, ast.Name)
    return [each.value for each in call.keywords if each.arg in CHECKS and isinstance(each.value, plain)]


def _functions_of_checks(tree: ast.Module, values: list[ast.expr]) -> list[ast.FunctionDef]:
    """The functions of these names, or named by a value, and those that only they use; none that anything else uses."""
    bound = Counter(name for statement in tree.body for name in _bound(statement))
    candidates = {
        statement.name: statement
        for statement in tree.body
        if isinstance(statement, ast.FunctionDef) and bound[statement.name] == 1 and _is_plain(statement)
    }
    everywhere = Counter(_names(tree))
    removed = sum((Counter(_names(value)) for value in values), Counter[str]())
    functions: list[ast.FunctionDef] = []
    growing = True
    while growing:
        growing = False
        for name, function in list(candidates.items()):
            own = Counter(_names(function))
            serves_checks = name in CHECKS or removed[name] > 0
            if serves_checks and everywhere[name] == removed[name] + own[name]:
                functions.append(candidates.pop(name))
                removed += own
                growing = True
    return functions


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of the module may bind, at any depth."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _names(tree: ast.AST) -> Iterator[str]:
    """The names that code reads or binds, and texts, which ``getattr`` and ``globals`` may look up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_plain(function: ast.FunctionDef) -> bool:
    """Whether nothing runs where a function is defined: no decorator, no call in a default or an annotation."""
    arguments = function.args
    defaults = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
    everyone = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    notes = [each.annotation for each in everyone if each is not None and each.annotation is not None]
    evaluated = [*defaults, *notes, *([function.returns] if function.returns else [])]
    runs = (ast.Call, ast.Await, ast.NamedExpr)
    return not function.decorator_list and not any(
        isinstance(node, runs) for each in evaluated for node in ast.walk(each)
    )


def _range(starts: list[int], node: _Node) -> _Range:
    """Where a node begins and ends in a file whose lines start there."""
    if node.end_lineno is None or node.end_col_offset is None:
        raise ValueError(f"line {node.lineno}: the parser gave no end")
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _without(content: bytes, nodes: list[_Node]) -> bytes:
    """The content without these nodes, whose line breaks stay except at the end of the file. A value becomes None."""
    starts = [0, *accumulate(map(len, content.splitlines(keepends=True)))]
    ranges = [(*_range(starts, node), b"None" if isinstance(node, ast.expr) else b"") for node in nodes]
    parts, after = [], 0
    for begin, end, instead in sorted(ranges):
        if begin < after:
            continue  # inside the one before
        parts += [content[after:begin], instead, b"\n" * content.count(b"\n", begin, end)]
        after = end
    return b"".join([*parts, content[after:]]).rstrip()
