"""The layout of the repository: small folders, no import cycle, packages that say what they hold."""

from __future__ import annotations

import ast
import graphlib
from collections import Counter

import pytest

from tests.helpers.source_tree import PACKAGES, ROOT, imports, modules

MOST = 15
"""Modules of one folder: as many as a reader takes in at once."""


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The import cycles of a graph: after each that is found, its last edge is taken out.

    >>> cycles({"a": {"b"}, "b": {"a"}, "c": {"a"}})
    [['a', 'b', 'a']]
    """
    graph = {name: set(others) for name, others in graph.items()}
    found = []
    while True:
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            cycle: list[str] = error.args[1]  # each is imported by the next
            found.append(cycle)
            graph[cycle[1]].discard(cycle[0])
        else:
            return found


def is_test(name: str) -> bool:
    return name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not by imports inside functions either: two modules that need each other are one, or lack a third."""
    found = cycles({name: imports(module) for name, module in modules().items()})
    assert not found, "\n".join(" <- ".join(cycle) for cycle in found)


def test_no_folder_holds_more_than_a_reader_takes_in() -> None:
    counts = Counter(m.path.parent.relative_to(ROOT) for m in modules().values() if not m.is_package)
    crowded = {str(folder): count for folder, count in counts.items() if count > MOST}
    assert not crowded, f"more than {MOST} modules: {crowded}: make a room of those that belong together"


@pytest.mark.parametrize("top", PACKAGES)
def test_every_package_says_what_it_holds(top: str) -> None:
    """By the docstring of its ``__init__.py``; the top packages may leave that to README.md."""
    folders = {m.path.parent for m in modules().values() if m.name.startswith(f"precast.{top}.")}
    silent = []
    for folder in sorted(folders - {ROOT / top}):
        init = folder / "__init__.py"
        if not init.is_file() or ast.get_docstring(ast.parse(init.read_bytes())) is None:
            silent.append(str(folder.relative_to(ROOT)))
    assert not silent, f"no __init__.py with a docstring: {silent}"


def test_every_module_says_what_it_is() -> None:
    silent = [m.name for m in modules().values() if not m.is_empty and ast.get_docstring(m.tree) is None]
    assert not silent


def test_no_test_imports_another() -> None:
    """What tests share stands in tests/helpers, or in a conftest.py."""
    wrong = {
        name: found
        for name in modules()
        if is_test(name) and (found := {i for i in imports(modules()[name]) if is_test(i)})
    }
    assert not wrong


def test_the_code_does_not_import_the_tests() -> None:
    wrong = [
        n for n, m in modules().items() if n.startswith("precast.") and any(i.startswith("tests") for i in imports(m))
    ]
    assert not wrong
