"""YAML as plain values, each with its file, line and column.

A small and safe part of YAML: mappings, lists and scalars. No tags, no anchors or aliases (they can expand without
bound), one document, no key twice, bounded size and depth. Plain scalars follow YAML 1.2, so ``1e-6`` is a number and a
date is text; what YAML 1.1 and 1.2 read differently (``yes``, ``010``, ``1_000``) is refused rather than guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

import yaml

from precast.build.errors import Location, ManifestError

SIZE_LIMIT = 8 << 20  # a recording of all of a library's own tests takes 1 to 2 MB
DEPTH_LIMIT = 16
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser where PyYAML was built with it

Content = Union[str, int, float, bool, None, "tuple[Node, ...]", "dict[str, Node]"]

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_BASED = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_GROUPED = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?", re.ASCII)
_OCTAL = re.compile(r"[-+]?0[0-9]+", re.ASCII)
_BINARY = re.compile(r"[-+]?0b[01_]+", re.ASCII)
_WORDS = {"null": None, "Null": None, "NULL": None, "~": None, "": None}
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TRAPS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_NOT_FINITE = {".inf", "+.inf", "-.inf", ".nan"}


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its location; ``key`` is the location of its key, for a value in a mapping."""

    value: Content
    at: Location
    key: Location | None = None

    @property
    def named_at(self) -> Location:
        """The location of its key, or its own where it has none."""
        return self.key or self.at

    def plain(self) -> Any:
        """The value without locations.

        >>> read_yaml(b"{a: [1, x]}", "m.yaml").plain()
        {'a': [1, 'x']}
        """
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, tuple) else self.value

    @property
    def kind(self) -> str:
        """The kind of value, as error messages name it."""
        if self.value is None:
            return "nothing"
        names = {
            dict: "a mapping",
            tuple: "a list",
            str: "text",
            bool: "true or false",
            int: "an integer",
            float: "a number",
        }
        return names[type(self.value)]


def read_yaml(data: bytes, file: str) -> Node:
    """The one document of a YAML text, or a ManifestError with the location of what is wrong.

    >>> node = read_yaml(b"eps: 1e-6\\n", "m.yaml")
    >>> node.value["eps"].value, str(node.value["eps"].at)
    (1e-06, 'm.yaml:1:6')
    """
    start = Location(file, 1, 1)
    if len(data) > SIZE_LIMIT:
        raise ManifestError(
            f"{len(data)} bytes of YAML, more than the {SIZE_LIMIT} precast reads: split the manifest", start
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError("not UTF-8 text: save the file as UTF-8", Location(file, line, 1)) from None
    loader = _LOADER(text)
    try:
        return _Reader(loader, file).document()
    except ManifestError:
        raise
    except yaml.YAMLError as error:
        raise ManifestError(f"not YAML: {_problem(error)}", _marked(error, file, text)) from None
    except (ValueError, OverflowError) as error:  # an escape that names no character
        raise ManifestError(f"not YAML: {error}: correct the text", start) from None
    finally:
        loader.dispose()


class _Reader:
    """Builds nodes out of the parser's events, so that nothing is expanded or constructed before it is checked."""

    def __init__(self, loader: Any, file: str) -> None:
        self._loader = loader
        self._file = file

    def document(self) -> Node:
        self._take()  # the stream starts
        event = self._take()
        if isinstance(event, yaml.StreamEndEvent):
            raise ManifestError("the file is empty: start it with 'version: 1'", Location(self._file, 1, 1))
        node = self._node(self._take(), 0)
        self._take()  # the document ends
        event = self._take()
        if not isinstance(event, yaml.StreamEndEvent):
            raise ManifestError("a second document starts here: keep one document a file", self._at(event))
        return node

    def _take(self) -> Any:
        return self._loader.get_event()

    def _at(self, event: Any) -> Location:
        return Location(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, depth: int, key: Location | None = None) -> Node:
        at = self._at(event)
        _bare(event, at)
        if depth > DEPTH_LIMIT:
            raise ManifestError(f"nests deeper than {DEPTH_LIMIT} levels: flatten it", at)
        if isinstance(event, yaml.ScalarEvent):
            return Node(self._scalar(event, at), at, key)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(tuple(self._node(e, depth + 1) for e in self._until(yaml.SequenceEndEvent)), at, key)
        return self._mapping(at, depth, key)

    def _until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := self._take(), end):
            yield event

    def _mapping(self, at: Location, depth: int, key: Location | None) -> Node:
        values: dict[str, Node] = {}
        for event in self._until(yaml.MappingEndEvent):
            key_at = self._at(event)
            _bare(event, key_at)
            if not isinstance(event, yaml.ScalarEvent):
                raise ManifestError("a key must be plain text: write 'name: value'", key_at)
            name = clean(event.value, key_at)  # always text: no key is a number or a truth value
            if name in values:
                raise ManifestError(
                    f"the key {name[:80]!r} appears twice, first in line {values[name].named_at.line}: keep one", key_at
                )
            values[name] = self._node(self._take(), depth + 1, key_at)
        return Node(values, at, key)

    def _scalar(self, event: Any, at: Location) -> Content:
        if not event.implicit[0] or event.style not in (None, ""):
            return clean(event.value, at)
        return _plain(event.value, at)


def _bare(event: Any, at: Location) -> None:
    """Refuse what could expand or construct: aliases, anchors, tags."""
    if isinstance(event, yaml.AliasEvent):
        raise ManifestError(f"'*{str(event.anchor)[:80]}': aliases are not read: write the value out", at)
    if event.anchor is not None:
        raise ManifestError(f"'&{event.anchor[:80]}': anchors are not read: remove it", at)
    if event.tag is not None:
        raise ManifestError(f"{event.tag[:80]!r}: tags are not read: write a plain value", at)


def clean(text: str, at: Location) -> str:
    """Text that can be printed and encoded: half characters and control characters are refused."""
    for character in text:
        if "\ud800" <= character <= "\udfff" or (character < " " and character not in "\t\n") or character == "\x7f":
            raise ManifestError(f"the character U+{ord(character):04X} is in a text: remove it", at)
    return text


def _plain(text: str, at: Location) -> Content:
    """A scalar without quotes, by YAML 1.2; what 1.1 reads as something else is refused."""
    if text in _WORDS:
        return _WORDS[text]
    if text in _TRUTH:
        return _TRUTH[text]
    low = text.lower()
    if low in _TRAPS:
        raise ManifestError(
            f"{text} is a truth value in YAML 1.1 and text in 1.2: write {_TRAPS[low]}, or {text!r} in quotes", at
        )
    if low in _NOT_FINITE:
        raise ManifestError(f"{text} is not a finite number: write one, or quote the text", at)
    if text[0] not in "+-.0123456789":
        return clean(text, at)
    return _number(text, at)


def _number(text: str, at: Location) -> Content:
    if len(text) > 64:
        return clean(text, at)
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _OCTAL.fullmatch(text):
        bare = text.lstrip("+-").lstrip("0") or "0"
        raise ManifestError(
            f"{text} is octal in YAML 1.1 and decimal in 1.2: write {bare}, 0o{bare}, or {text!r} in quotes", at
        )
    if _GROUPED.fullmatch(text) or _BINARY.fullmatch(text):
        raise ManifestError(
            f"{text} is a number in YAML 1.1 and text in 1.2: write plain digits, or {text!r} in quotes", at
        )
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ManifestError(f"{text} is too large for a number: write a smaller one, or quote the text", at)
        return number
    return clean(text, at)


def _marked(error: yaml.YAMLError, file: str, text: str) -> Location:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark:
        return Location(file, mark.line + 1, mark.column + 1)
    before = text[: getattr(error, "position", None) or 0]
    return Location(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _problem(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text cannot be read"
    return f"{problem}: correct the text (YAML indents with spaces, never tabs)"
