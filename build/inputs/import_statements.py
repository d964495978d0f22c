"""Import statements: what a Python file may import, the distributions that it names, and what a memo keeps of both."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from precast.build.inputs.compiled_source import compiled_source, means_to_read
from precast.build.inputs.file_lists import normalised
from precast.build.inputs.module_finder import FoundModule

Row = tuple[int, str, tuple[str, ...]]
"""The level of a statement, its module, and its names."""
DISTRIBUTION = -1  # in place of a level: not a module, but a distribution by its name
_BY_DISTRIBUTION = re.compile(
    r"""\b(?:distribution\s*=|(?:version|distribution|requires|files|metadata)\()\s*["']([A-Za-z0-9][\w.-]*)["']"""
)
_BY_NAME = re.compile(r"""(?:\bimport_module|\b__import__)\(\s*["'](\.*)([A-Za-z_][\w.]*)["']""")


def imports_of(content: bytes) -> Iterator[Row]:
    """Every import statement of a file, anywhere in it: its level, its module, its names.

    A file that Python cannot parse imports nothing. Its content still counts, and importing it fails with the reason.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(alias.name for alias in node.names)
    text = content.decode(errors="replace")
    for dots, name in _BY_NAME.findall(text):
        yield len(dots), name, ()
    yield from ((DISTRIBUTION, normalised(name), ()) for name in _BY_DISTRIBUTION.findall(text))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements of a file, nested ones too. Expressions hold no statement, so they are not searched."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending += getattr(node, part, ())
        yield node


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What a file's content says: its imports, the digest of its compiled source, and the packages and functions by
    which that may read files."""

    imports: list[Row]
    compiled: str
    outside: frozenset[str]

    @classmethod
    def of(cls, content: bytes, digest: str) -> ParsedFile:
        """Parse a file of Python."""
        imports = list(imports_of(content))
        compiled = compiled_source(content)
        if compiled == content:
            left = imports
        else:
            digest, left = hashlib.sha256(compiled).hexdigest(), list(imports_of(compiled))
        packages = {base.partition(".")[0] for level, base, _ in left if level == 0}
        return cls(imports, digest, means_to_read(compiled) | packages)

    @classmethod
    def noted(cls, value: object) -> ParsedFile | None:
        """What a memo kept; None where it holds anything else.

        >>> ParsedFile.noted([[[0, "os", ["path"]]], "ab12", []]), ParsedFile.noted("damaged")
        (ParsedFile(imports=[(0, 'os', ('path',))], compiled='ab12', outside=frozenset()), None)
        """
        if not isinstance(value, list) or len(value) != 3:
            return None
        imports, compiled, outside = _parse_imports(value[0]), value[1], value[2]
        if imports is None or not isinstance(compiled, str) or not isinstance(outside, list):
            return None
        return cls(imports, compiled, frozenset(map(str, outside)))


def _parse_imports(value: Any) -> list[Row] | None:
    """Rows that a memo kept; None where it holds anything else."""
    try:
        rows = [(level, base, tuple(names)) for level, base, names in value]
    except (TypeError, ValueError):
        return None
    right = all(isinstance(lv, int) and all(isinstance(n, str) for n in (base, *names)) for lv, base, names in rows)
    return rows if right else None


def absolute_names(module: FoundModule, level: int, base: str, names: tuple[str, ...]) -> Iterator[str]:
    """The names that an import statement may load: its module, and the names imported from it, which may be modules."""
    if level:
        parts = module.name.split(".")
        kept = len(parts) - level + (1 if module.package else 0)
        if kept < 1:
            return  # beyond the top package: an error when it runs
        base = ".".join([*parts[:kept], *([base] if base else [])])
    yield base
    yield from (f"{base}.{name}" for name in names)
