"""Every package that a distribution imports is one that it requires, or one of its extras."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.helpers.source_tree import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NEWER = {"annotationlib", "compression"}
"""Of the standard library of a newer Python than the oldest."""
ABSENT_OR_THERE = {
    "loader": {"torch": "the caller's own", "hatchling": "when it is built"},
    "attach": {
        **{"torch": "the attached program's own", "cutlass": "likewise", "hatchling": "when it is built"},
        **dict.fromkeys(("vllm", "sglang", "transformers"), "recorded where the engine is"),
        "typer": "the builder's, whose commands are in attach/builder",
    },
    "measure": {
        "torch": "the extra torch brings both",
        "typer": "the builder's, whose commands are in measure/commands",
    },
    "publish": {
        "typer": "the builder's, whose commands are in publish/commands",
        **{"huggingface_hub": "the extra hub brings both", "fsspec": "the extra remote brings both"},
        **dict.fromkeys(("cyclonedx", "packageurl", "sigstore"), "the extra sign brings both"),
    },
    "native": {"typer": "the builder's, whose command is in native/command.py"},
    "manifests": {"cute": "CUTLASS's examples, which the script puts on the path"},
}
"""What a folder imports without requiring it, with the reason."""


@cache
def requirements(folder: str) -> set[str]:
    """The names of the distributions that the distribution of a folder requires, and of its extras."""
    if folder == "fetch":  # in the loader's wheel
        return requirements("loader")
    if folder in ("loader", "emulator", "attach", "measure", "native", "publish"):
        own = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        extras = own.get("optional-dependencies", {}).values()
        return {name_of(each) for group in (own.get("dependencies", ()), *extras) for each in group}
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = whole["project"]["optional-dependencies"]
    needed = [r for extra in sorted(set(extras) - {"test", "tools", "check", "docs", "dev"}) for r in extras[extra]]
    return set(map(name_of, [*needed, *whole["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]]))


@cache
def distributions(name: str) -> set[str]:
    """The distributions that a name may be imported from; cuda-python itself holds no file."""
    return {"cuda-python" if name == "cuda" else name.replace("_", "-"), *map(name_of, _providers().get(name, ()))}


_providers = cache(packages_distributions)  # it reads the list of files of everything that is installed


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level names of imports, ``import_module`` included, but for those that only a type checker reads."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.Call) and "import_module" in (
            getattr(node.func, name, "") for name in ("attr", "id")
        ):
            yield from (str(name.value).partition(".")[0] for name in node.args if isinstance(name, ast.Constant))
        nodes += ast.iter_child_nodes(node)


def undeclared(folder: str, text: str) -> list[str]:
    """The names that a module imports and nothing requires."""
    known = {*sys.stdlib_module_names, *NEWER, "precast", *ABSENT_OR_THERE.get(folder, ())}
    return [n for n in sorted(set(imported(ast.parse(text))) - known) if not requirements(folder) & distributions(n)]


@pytest.mark.parametrize(
    "folder",
    ["loader", "fetch", "emulator", "attach", "build", "cli", "kernels", "manifests", "measure", "native", "publish"],
)
def test_imports_are_required(folder: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in undeclared(folder, path.read_text())
    }
    assert not wrong, "require its distribution in pyproject.toml, or import something else"


@pytest.mark.parametrize(
    ("folder", "text", "names"),
    [
        ("cli", "import click", ["click"]),
        (
            "cli",
            "def f():\n    try:\n        from pygments.lexers import get\n    except ImportError: ...",
            ["pygments"],
        ),
        ("cli", "import rich.live, yaml, os, precast.build", []),
        ("loader", "import typer", ["typer"]),
        ("loader", "importlib.import_module('click.core')", ["click"]),
        ("loader", "if TYPE_CHECKING:\n    import typer", []),
    ],
)
def test_an_import_that_nothing_requires_is_found(folder: str, text: str, names: list[str]) -> None:
    assert undeclared(folder, text) == names


def test_no_reason_is_stale() -> None:
    """An import for which there is an excuse is still there."""
    for folder, reasons in ABSENT_OR_THERE.items():
        names = {n for path in (ROOT / folder).rglob("*.py") for n in imported(ast.parse(path.read_text()))}
        assert set(reasons) <= names
