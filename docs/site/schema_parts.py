"""Parts of the JSON Schemas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from precast.build.plan.yaml import fields as yaml_fields
from precast.loader.contract.format.patterns import Pattern

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def document(title: str, root: Schema, definitions: Schema) -> Schema:
    """A whole schema: its root, and the definitions that it refers to."""
    return {"$schema": DIALECT, "title": title, **root, "$defs": definitions}


def object_of(properties: Schema, optional: Sequence[str] = ()) -> Schema:
    """An object with these properties and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def table_of(values: Schema, most: int) -> Schema:
    """An object with any keys."""
    return {"type": "object", "maxProperties": most, "additionalProperties": values}


def list_of(items: Schema, most: int) -> Schema:
    """A list of at most ``most`` items."""
    return {"type": "array", "maxItems": most, "items": items}


def one_or_more(item: Schema, description: str) -> Schema:
    """One item, or a list of different items."""
    several = {"type": "array", "minItems": 1, "maxItems": yaml_fields.MOST, "uniqueItems": True, "items": item}
    return {"anyOf": [item, several], "description": description}


def text_of(pattern: re.Pattern[str] | Pattern, description: str = "") -> Schema:
    """A text that the pattern matches as a whole."""
    schema: Schema = {"type": "string", "pattern": whole_pattern(pattern.pattern)}
    return {**schema, "description": description} if description else schema


def whole_pattern(pattern: str) -> str:
    r"""A pattern for the whole text. ``\w`` means more than ASCII in some dialects, and ``$`` allows a last newline."""
    return "^(?:" + pattern.replace(r"\w", "[A-Za-z0-9_]") + r")$(?!\n)"


def line() -> Schema:
    """A text of bounded length."""
    return {"type": "string", "maxLength": yaml_fields.TEXT}


def count_up_to(most: int) -> Schema:
    """A whole number from 0 to ``most``."""
    return {"type": "integer", "minimum": 0, "maximum": most}


def int64() -> Schema:
    """A signed number of 64 bits."""
    return {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


def or_null(schema: Schema) -> Schema:
    """A value, or null."""
    return {"anyOf": [{"type": "null"}, schema]}
