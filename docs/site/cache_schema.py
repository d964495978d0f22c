"""The JSON Schemas of a cache's ``index.json`` and of its ``ops/<op>.json``, and all schemas by name.

A schema accepts whatever the readers accept, and refuses what they refuse as far as a schema can express it. It cannot
express that a folder exists, that a key is one of the op's, that arguments or expressions nest too deep, or that 1.0 is
not an integer.
"""

from __future__ import annotations

import re

from manifest_schema import manifest_schema
from schema_parts import (
    Schema,
    count_up_to,
    document,
    int64,
    list_of,
    object_of,
    or_null,
    table_of,
    text_of,
)  # fmt: skip

from precast.loader.contract.format import artifact, index, signature
from precast.loader.contract.format.patterns import CACHE_NAME, GLIBC, KEY_TYPE, NAME, OP_NAME, SHA256, SONAME, SYMBOL
from precast.loader.contract.format.program import expression, host_program
from precast.loader.contract.format.tuning.table import MOST_ROWS

_LIST_DEPTH = 12
_ROW = re.compile(r"[0-9]{1,19}(,[0-9]{1,19}){0,31}: [0-9.eE+,-]*[1-9][0-9.eE+,-]*")
_ANY_TARGET = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")


def schema_of(name: str) -> Schema:
    """One of the schemas, by name: manifest, index or op."""
    return {"manifest": manifest_schema, "index": _index, "op": _op}[name]()


def _index() -> Schema:
    blob = {"$ref": "#/$defs/blob"}
    runtime = object_of({"soname": text_of(SONAME), "host": {"$ref": "#/$defs/host"}, "blob": blob})
    entry = object_of(
        {"sha256": text_of(SHA256), "size": count_up_to(index.OP_LIMIT), "artifacts": count_up_to(index.MOST_ARTIFACTS)}
    )
    root = object_of(
        {
            "format": {"const": index.FORMAT},
            "version": {"const": index.VERSION},
            "name": text_of(CACHE_NAME),
            "toolchain": table_of({"type": "string"}, 256),
            "runtimes": list_of(runtime, 8),
            "dictionary": or_null(blob),
            "ops": {**table_of(entry, 100_000), "propertyNames": text_of(OP_NAME)},
            "companions": blob,
        },
        optional=("companions",),
    )
    return document("precast index.json", root, {"blob": _blob(), "host": _host()})


def _op() -> Schema:
    root = object_of(
        {
            "format": {"const": index.OP_FORMAT},
            "version": {"const": index.VERSION},
            "op": text_of(OP_NAME),
            "doc": {"type": "string"},
            "keys": list_of(_key(), 256),
            "artifacts": list_of({"$ref": "#/$defs/artifact"}, index.MOST_ARTIFACTS),
            "tuning": list_of({"$ref": "#/$defs/table"}, index.TUNING_LIMIT),
        },
        optional=("doc", "tuning"),
    )
    parts = {
        "artifact": _artifact(),
        "table": _table(),
        "argument": _argument(),
        "signature": _signature(),
        "blob": _blob(),
        "host": _host(),
        "expression": _expression(),
        "program": _program(),
    }
    return document("precast ops/<op>.json", root, {**parts, "value": _config_value()})


def _key() -> Schema:
    value = {"$ref": "#/$defs/value"}
    return object_of(
        {
            "name": text_of(NAME),
            "type": text_of(KEY_TYPE),
            "tuned": {"type": "boolean"},
            "default": value,
            "choices": list_of(value, 1024),
        },
        optional=("default", "choices"),
    )


def _artifact() -> Schema:
    sizes = {n: count_up_to(2**31) for n in ("registers", "shared", "stack", "local")}
    shape = object_of(
        {
            "key": text_of(SHA256),
            "config": {**table_of({"$ref": "#/$defs/value"}, 256), "propertyNames": text_of(NAME)},
            "target": text_of(_ANY_TARGET),
            "host": or_null({"$ref": "#/$defs/host"}),
            "kind": {"enum": ["object", "cubin"]},
            "blob": {"$ref": "#/$defs/blob"},
            "symbol": text_of(SYMBOL),
            "rank": count_up_to(2**31),
            "signature": {"$ref": "#/$defs/signature"},
            "resources": list_of(object_of({"kernel": {"type": "string"}, **sizes}), 256),
            "provenance": {"type": "object"},
            "evidence": list_of({"type": "object"}, 256),
            "assumes": _assumptions(),
            "program": {"$ref": "#/$defs/program"},
            "ptx": {"$ref": "#/$defs/blob"},
        },
        optional=("resources", "provenance", "evidence", "assumes", "program", "ptx"),
    )
    is_object = {"required": ["kind"], "properties": {"kind": {"const": "object"}}}
    return {**shape, "if": is_object, "then": {"properties": {"host": {"type": "object"}, "program": False}}}


def _assumptions() -> Schema:
    """At least one fact. A schema cannot express that ``needs`` and ``speed`` share none."""
    text = {"type": "string", "minLength": 1, "maxLength": 256}
    facts = {**table_of({"anyOf": [int64(), text]}, 256), "propertyNames": text_of(NAME)}
    shape = object_of({"needs": facts, "speed": facts})
    return {**shape, "anyOf": [{"properties": {n: {"minProperties": 1}}} for n in ("needs", "speed")]}


def _program() -> Schema:
    """A host program. A schema cannot express that each word ends within its parameter."""
    value = {"$ref": "#/$defs/expression"}
    parts = [count_up_to(host_program.BYTES - 1), {"enum": list(host_program.WIDTHS)}, value]
    word = {"type": "array", "prefixItems": parts, "minItems": 3, "maxItems": 3}
    size = count_up_to(host_program.BYTES)
    parameter = object_of({"size": size, "words": list_of(word, host_program.WORDS)})
    extent = {"type": "array", "minItems": 3, "maxItems": 3, "items": value}
    step = object_of(
        {
            **dict.fromkeys(("grid", "block", "cluster"), extent),
            "kernel": text_of(SYMBOL),
            "overlap": {"type": "boolean"},
            "parameters": list_of(parameter, host_program.PARAMETERS),
            "shared": value,
            "when": value,
        }
    )
    return object_of({"limit": count_up_to(2**62), "steps": list_of(step, host_program.STEPS)})


def _expression() -> Schema:
    """A number, a leaf, or a function of two expressions."""
    parts = [{"enum": sorted(expression.FUNCTIONS)}, *[{"$ref": "#/$defs/expression"}] * 2]
    function = {"type": "array", "prefixItems": parts, "minItems": 3, "maxItems": 3}
    return {"anyOf": [int64(), text_of(expression.LEAF), function]}


def _table() -> Schema:
    """A table of measurements."""
    size = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    tile = {**table_of({**size, "minimum": 1}, 32), "propertyNames": text_of(NAME)}
    tiling = object_of({"at_once": {**size, "minimum": 1}, "tile": tile})
    variant = object_of({"key": text_of(SHA256), "tiling": tiling}, optional=("tiling",))
    return object_of(
        {
            "gpu": {"type": "string", "minLength": 1, "maxLength": 128},
            "capability": {"type": "string", "pattern": r"^[1-9][0-9]?\.[0-9]$"},
            "axes": {**list_of(text_of(NAME), 32), "minItems": 1, "uniqueItems": True},
            "variants": {**list_of(variant, 10_000), "minItems": 1},
            "rows": list_of(text_of(_ROW), MOST_ROWS),
        }
    )


def _signature() -> Schema:
    symbol = object_of({"dtype": {"type": "string"}, "divisibility": count_up_to(2**31)})
    return object_of({"arguments": list_of({"$ref": "#/$defs/argument"}, 256), "symbols": table_of(symbol, 512)})


def _argument() -> Schema:
    dims = list_of({"anyOf": [int64(), {"type": "string", "maxLength": 64}]}, 32)
    properties = {
        "name": {"type": "string"},
        "kind": {"enum": list(signature.KINDS)},
        "dtype": {"type": "string"},
        "shape": dims,
        "strides": dims,
        "alignment": count_up_to(2**20),
        "divisibility": count_up_to(2**31),
        "device": {"type": "string"},
        "value": {"type": ["string", "number", "boolean", "null"]},
        "members": list_of({"$ref": "#/$defs/argument"}, 64),
        "written": {"type": "boolean"},
    }
    return object_of(properties, optional=tuple(n for n in properties if n not in ("name", "kind")))


def _blob() -> Schema:
    size = count_up_to(artifact.BLOB_LIMIT)
    return object_of(
        {"sha256": text_of(SHA256), "size": size, "stored": size, "encoding": {"enum": list(artifact.ENCODINGS)}}
    )


def _host() -> Schema:
    return object_of({"arch": {"enum": list(artifact.HOSTS)}, "glibc": text_of(GLIBC)})


def _config_value(depth: int = 0) -> Schema:
    """A config value: plain, or lists of such to a bounded depth."""
    real = {"type": "number", "not": {"type": "integer"}}
    plain: list[Schema] = [{"type": "string", "maxLength": 1024}, {"type": ["boolean", "null"]}, int64(), real]
    deeper: Schema = {"items": _config_value(depth + 1)} if depth < _LIST_DEPTH else {"maxItems": 0}
    return {"anyOf": [*plain, {"type": "array", **deeper}]}
