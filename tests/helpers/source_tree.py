"""The repository as it is laid out: its modules by their import names, and what each imports."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "loader", "fetch", "attach", "kernels", "build", "cli", "manifests", "emulator", "measure", "native", "publish",
)  # fmt: skip


@dataclass(frozen=True)
class Module:
    """One Python file: its import name, its path, and its parsed source."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_empty(self) -> bool:
        return not self.tree.body


@cache
def modules() -> dict[str, Module]:
    """Every module of the packages and of the tests, by its import name.

    The trees are millions of objects that stay: collections of garbage would take two thirds of the time.
    """
    gc.disable()
    found = {}
    for top in (*PACKAGES, "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if top == "tests" else ("precast", *parts)).removesuffix(".__init__")
            found[name] = Module(name, path, ast.parse(path.read_bytes()))
    gc.freeze()
    gc.enable()
    return found


def imports(module: Module) -> set[str]:
    """The modules of this repository that a module imports, anywhere in it; those for the type checker alone apart."""
    known = modules()
    result = set()
    for node in _running(module.tree):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            result |= {name if name in known else node.module for name in names}
    return {name for name in result if name in known and name != module.name}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs: what stands under ``if TYPE_CHECKING`` does not."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield from _running(child)
