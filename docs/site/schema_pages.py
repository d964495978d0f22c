"""The pages of the JSON Schemas: every field of a manifest and of a cache, with its type and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cache_schema import schema_of
from page_parts import NOTE, table

LONGEST = 120
"""Characters of a pattern that a cell shows."""
MANIFEST = """\
# The schema of a manifest

[The manifest](../manifest.md) explains the fields; `precast schema manifest` prints the schema itself, for
editors. What a schema cannot express, `precast plan` says with file, line and column."""
CACHE = """\
# The schema of a cache

[The format of a cache](../format.md) explains the fields and says what a reader MUST do; `precast schema index`
and `precast schema op` print the schemas themselves."""


def manifest_page() -> str:
    """The page of the manifest."""
    return "\n\n".join([MANIFEST, *_objects(schema_of("manifest"), "A manifest")]) + "\n" + NOTE


def cache_page() -> str:
    """The page of ``index.json`` and ``ops/OP.json``."""
    parts = [CACHE, *_objects(schema_of("index"), "`index.json`"), *_objects(schema_of("op"), "`ops/OP.json`")]
    return "\n\n".join(parts) + "\n" + NOTE


def _objects(schema: dict[str, Any], title: str) -> Iterator[str]:
    """A section for the root, and one for each definition."""
    yield f"## {title}"
    yield from _fields(schema)
    for name, definition in schema.get("$defs", {}).items():
        yield f"### `{name}`"
        if "properties" in definition:
            yield from _fields(definition)
        else:
            yield f"{_capital(_type(definition))}."


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    """The table of an object's fields, and a section for each object that is one of them."""
    named = schema["properties"].items()
    inner = {name: field for name, field in named if "properties" in field}
    rows = [
        (f"`{name}`", _need(schema, name), "object, see below" if name in inner else _type(field), _text_of(field))
        for name, field in named
    ]
    described = any(row[3] for row in rows)
    yield table(("field", "", "type", "")[: 3 + described], [row[: 3 + described] for row in rows])
    for name, field in inner.items():
        yield f"### `{name}`"
        yield from _fields(field)


def _need(schema: dict[str, Any], name: str) -> str:
    return "required" if name in schema.get("required", ()) else ""


def _text_of(field: dict[str, Any]) -> str:
    return str(field.get("description", ""))


def _type(schema: dict[str, Any]) -> str:
    """A type in words, with its limits."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"`{_json(schema['const'])}`"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{_json(value)}`" for value in schema["enum"])
    for joined in ("anyOf", "oneOf"):
        if joined in schema and "properties" not in schema:
            return _joined(schema[joined])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": one}) for one in kind)
    return _NAMED.get(kind or "", _any)(schema)


def _joined(choices: list[dict[str, Any]]) -> str:
    """One of several; a thing or a list of it is said in few words."""
    *plain, last = choices
    if len(plain) == 1 and last.get("items") == plain[0]:
        return f"{_type(plain[0])}; or a list of these"
    if last.get("items", {}).get("anyOf", [])[:-1] == plain:
        return f"{_joined(plain)}; or lists of these, one in another"
    return " or ".join(dict.fromkeys(map(_type, choices)))


def _any(schema: dict[str, Any]) -> str:
    return "anything"


def _text(schema: dict[str, Any]) -> str:
    if "pattern" in schema:
        shown = schema["pattern"].removeprefix("^(?:").removesuffix(r")$(?!\n)")
        return f"text, `{shown}`" if len(shown) <= LONGEST else "text, of a form that the schema has"
    return f"text of at most {schema['maxLength']} characters" if "maxLength" in schema else "text"


def _number(schema: dict[str, Any]) -> str:
    name = "integer" if schema["type"] == "integer" else "number"
    low, high = schema.get("minimum"), schema.get("maximum")
    ends = [
        *([] if low is None else [f"at least {_limit(low)}"]),
        *([] if high is None else [f"at most {_limit(high)}"]),
    ]
    return ", ".join([name, *ends])


def _limit(value: float) -> str:
    """A limit as people write it: those of 64 bits by their exponent.

    >>> _limit(2**63 - 1), _limit(-(2**63)), _limit(16)
    ('2^63 - 1', '-2^63', '16')
    """
    return {2**63 - 1: "2^63 - 1", -(2**63): "-2^63"}.get(int(value), str(value))


def _list(schema: dict[str, Any]) -> str:
    length = f" of at most {schema['maxItems']}" if "maxItems" in schema else ""
    return f"list{length}: {_type(schema['items'])}" if "items" in schema else f"list{length}"


def _table(schema: dict[str, Any]) -> str:
    if "properties" in schema:
        optional = set(schema["properties"]) - set(schema.get("required", ()))
        fields = (f"`{n}`{' (optional)' if n in optional else ''}: {_type(f)}" for n, f in schema["properties"].items())
        return "object with " + "; ".join(fields)
    values = schema.get("additionalProperties")
    return f"object of names to {_type(values)}" if isinstance(values, dict) else "object"


def _json(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_NAMED: dict[str, Callable[[dict[str, Any]], str]] = {
    "string": _text,
    "integer": _number,
    "number": _number,
    "array": _list,
    "object": _table,
    "boolean": lambda _: "`true` or `false`",
    "null": lambda _: "null",
}
