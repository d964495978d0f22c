"""Leading imports: the installed packages that a module, or a function of it, imports before it does anything else.

Processes may import them on its behalf, once for several kernels: what runs, and in which order, is what would have
run anyway. Nothing else is shared. A package that only a neighbour imports may change this process: the environment,
the working folder, another package, or the compiler.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

_SITES = frozenset({"site-packages", "dist-packages"})


class Step(NamedTuple):
    """One statement: a module, and the names that are taken from it, which may be modules, too."""

    module: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leading:
    """Statements in their order; ``whole`` means that there is nothing else."""

    steps: tuple[Step, ...]
    whole: bool


def leading_imports(text: str, function: str = "") -> Leading:
    """The imports with which a module's source begins, or the body of one of its functions.

    >>> leading_imports('import torch\\nfrom acme import tiles\\nSIZE = tiles.SIZE\\nimport late').steps
    (Step(module='torch', names=()), Step(module='acme', names=('tiles',)))
    """
    body: Sequence[ast.stmt] = ast.parse(text).body
    if function:
        body = next((node.body for node in body if isinstance(node, ast.FunctionDef) and node.name == function), ())
    steps: list[Step] = []
    for node in body:
        if isinstance(node, ast.Import):
            steps += [Step(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and node.names[0].name != "*":
            steps.append(Step(node.module, tuple(alias.name for alias in node.names)))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return Leading(tuple(steps), whole=False)
    return Leading(tuple(steps), whole=True)


def of_module(name: str, own: Collection[str] = ()) -> tuple[Step, ...]:
    """The leading imports of a module and, before them, of the packages that it is in.

    The first module that is not installed ends them, except for packages in ``own``. Python's own modules are left out:
    when one is imported makes no difference.
    """
    statements: list[Step] = []
    for file in _files(name):
        leading = _read(file)
        steps, complete = installed(leading.steps, own)
        statements += steps
        if not (complete and leading.whole):
            break
    return tuple(statements)


def of_function(module: str, name: str) -> tuple[Step, ...]:
    """The leading imports of the body of one of a module's functions."""
    files = _files(module)
    return tuple(installed(_read(files[-1], name).steps)[0]) if len(files) == module.count(".") + 1 else ()


def installed(steps: Iterable[Step], own: Collection[str] = ()) -> tuple[list[Step], bool]:
    """The first of some imports that are of installed packages, without those of Python; and whether these are all."""
    statements: list[Step] = []
    for step in steps:
        top = step.module.partition(".")[0]
        if top in sys.stdlib_module_names:
            continue
        if top not in own and not is_installed(top):
            return statements, False
        statements.append(step)
    return statements, True


def common(first: Sequence[Step], second: Sequence[Step]) -> tuple[Step, ...]:
    """The beginning that both have.

    >>> common([Step("a"), Step("b")], [Step("a"), Step("c")])
    (Step(module='a', names=()),)
    """
    same: list[Step] = []
    for step, other in zip(first, second, strict=False):
        if step != other:
            break
        same.append(step)
    return tuple(same)


def run(steps: Iterable[Step]) -> None:
    """Import modules as these statements do. The kernel's own module reports what cannot be imported."""
    for step in steps:
        with suppress(Exception, SystemExit):
            module = importlib.import_module(step.module)
            for name in step.names:
                if not hasattr(module, name):
                    importlib.import_module(f"{step.module}.{name}")


def is_installed(top: str) -> bool:
    """Whether a module is part of an installed package, and not one that an author edits.

    >>> is_installed("yaml"), is_installed("no_such_module")
    (True, False)
    """
    spec = _spec(top, None)
    paths = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    return any(part in _SITES for path in paths for part in Path(path).parts)


def _files(module: str) -> list[str]:
    """The source files of a module and, before it, of the packages that it is in, as far as there are any."""
    files: list[str] = []
    path: Sequence[str] | None = None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        spec = _spec(".".join(parts[:end]), path)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            break
        files.append(spec.origin)
        path = spec.submodule_search_locations
    return files


def _spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    with suppress(ImportError, ValueError):
        return PathFinder.find_spec(name, path)
    return None


def _read(file: str, function: str = "") -> Leading:
    with suppress(OSError, SyntaxError, ValueError):
        return leading_imports(Path(file).read_bytes().decode(), function)
    return Leading((), whole=False)
