"""Typed getters for values of a YAML file that may be wrong. Each error carries the location of its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from precast.build.errors import ManifestError
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.config import suggest
from precast.loader.contract.format.patterns import Pattern

T = TypeVar("T")
MOST = 10_000
TEXT = 4096


def mapping(node: Node, names: tuple[str, ...] = ()) -> dict[str, Node]:
    """The entries of a mapping, which may have no other keys than these."""
    if not isinstance(node.value, dict):
        raise ManifestError(f"expected a mapping, got {node.kind}: write 'key: value' lines", node.at)
    for name, value in node.value.items():
        if names and name not in names:
            raise ManifestError(f"unknown key {name[:80]!r}{suggest(name[:80], names)}", value.named_at)
    return node.value


def required(data: Mapping[str, Node], name: str, node: Node) -> Node:
    """The value under ``name``, which is required."""
    if name not in data:
        raise ManifestError(f"{name!r} is missing: add it", node.at)
    return data[name]


def items(node: Node) -> tuple[Node, ...]:
    """The items of a list."""
    if not isinstance(node.value, tuple):
        raise ManifestError(f"expected a list, got {node.kind}: write '- ' before each item", node.at)
    if len(node.value) > MOST:
        raise ManifestError(f"{len(node.value)} items, more than {MOST}: split the manifest", node.at)
    return node.value


def some(node: Node, parse: Callable[[Node], T]) -> tuple[T, ...]:
    """One item, or a list of at least one, each only once."""
    values: list[T] = []
    for item in items(node) if isinstance(node.value, tuple) else (node,):
        value = parse(item)
        if value in values:
            raise ManifestError(f"{item.plain()!r} is listed twice: keep one", item.at)
        values.append(value)
    if not values:
        raise ManifestError("an empty list: give at least one item, or leave the key out", node.at)
    return tuple(values)


def text(node: Node) -> str:
    """The value, which must be text."""
    if not isinstance(node.value, str):
        raise ManifestError(f"expected text, got {node.kind}: quote it if it is meant as text", node.at)
    if len(node.value) > TEXT:
        raise ManifestError(f"a text of {len(node.value)} characters, more than {TEXT}: shorten it", node.at)
    return node.value


def matching(node: Node, words: Pattern, what: str) -> str:
    """Text that the whole pattern matches."""
    value = text(node)
    if not words.admits(value):
        raise ManifestError(f"{value[:80]!r} is not {what}", node.at)
    return value


def one_of(node: Node, allowed: tuple[str, ...]) -> str:
    """A text out of a fixed list."""
    value = text(node)
    if value not in allowed:
        raise ManifestError(f"{value[:80]!r} is not allowed{suggest(value[:80], allowed)}", node.at)
    return value


def some_of(
    data: Mapping[str, Node], name: str, allowed: tuple[str, ...], otherwise: tuple[str, ...]
) -> tuple[str, ...]:
    """One or several texts out of a fixed list under a name, or ``otherwise`` if the name is missing."""
    return some(data[name], lambda node: one_of(node, allowed)) if name in data else otherwise


def existing_path(path: Path, exists: Callable[[Path], bool], reason: str, node: Node) -> Path:
    """The absolute form of a path that must exist as a file or a folder; raises ManifestError with the reason."""
    try:
        if exists(path):
            return path.resolve()
    except (OSError, ValueError):  # a name too long, with invalid characters, or in a folder without access
        pass
    raise ManifestError(reason, node.at) from None


def boolean(node: Node) -> bool:
    """The value, which must be true or false."""
    if not isinstance(node.value, bool):
        raise ManifestError(f"expected true or false, got {node.kind}: write one of them", node.at)
    return node.value
