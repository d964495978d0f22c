"""The published JSON Schemas: of a manifest, of a cache's ``index.json``, of its ``ops/<op>.json``.

They are for editors and other languages. The readers decide: a schema takes whatever they take, and refuses what they
refuse as far as a schema can express it. It cannot express that a folder exists, that a key is one of the op's, that
arguments or expressions nest too deep, or that 1.0 is no integer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from precast.build.gpu.gpu_table import GPUS
from precast.build.gpu.profile import CAPABILITIES, facts_of
from precast.build.plan import manifest, yaml_fields
from precast.loader.format import artifact, index, launch_plan, signature
from precast.loader.format.patterns import CACHE_NAME, GLIBC, KEY_TYPE, NAME, OP_NAME, SHA256, SONAME, SYMBOL, Pattern
from precast.loader.format.target import Target

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAMES = ("manifest", "index", "op")
Schema = dict[str, Any]

_LIST_DEPTH = 12
_ANY_TARGET = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")


def schema_of(name: str) -> Schema:
    """One of the schemas, by name.

    >>> schema_of("manifest")["required"]
    ['version', 'name', 'kernels']
    """
    return {"manifest": _manifest, "index": _index, "op": _op}[name]()


def _manifest() -> Schema:
    entries = {"type": "array", "minItems": 1, "maxItems": yaml_fields.MOST, "items": {"$ref": "#/$defs/entry"}}
    root = _object(
        {
            "version": {"const": manifest.VERSION, "description": "The version of this format."},
            "name": _text(CACHE_NAME, "The name of the cache."),
            "targets": _some(_known_target(), "What to build for, such as sm_90a; an entry may have its own."),
            "profiles": _some(_known_gpu(), "The GPU to assume for its targets, where a kernel asks its GPU anything."),
            "path": _some(_line(), "Folders, relative to this file, to import one's own modules from."),
            "kernels": {**entries, "description": "What to build."},
        },
        optional=("targets", "profiles", "path"),
    )
    scalar = {"type": ["string", "number", "boolean", "null"]}
    value = {"anyOf": [scalar, {"type": "array", "items": {"$ref": "#/$defs/value"}}]}
    return _document("precast manifest", root, {"entry": _entry(), "value": value})


def _entry() -> Schema:
    properties = {
        "kernel": _text(OP_NAME, "An op that an installed distribution registers."),
        "compile": _text(manifest.SOURCE, "A function that compiles a kernel, as module:function."),
        "op": _text(OP_NAME, "The op that the function compiles, where it declares none."),
        "config": {**_row(0), "description": "Keys that a caller must match; lists multiply."},
        "tuned": {**_row(0), "description": "Keys that the loader may choose, preferred value first; lists multiply."},
        "include": {**_rows(), "description": "More rows, beside the matrix."},
        "exclude": {**_rows(), "description": "Rows of the matrix to leave out: those that match a whole item."},
        "targets": _some(_known_target(), "The targets of this entry, instead of the manifest's."),
        "emit": _some({"enum": list(manifest.EMITS)}, "What to make."),
        "env": _environment(),
        "parts": _some(_text(manifest.PART), "Names for the objects of a function that compiles several, in order."),
        "skip_unsupported": {"type": "boolean", "description": "List what cannot be built instead of failing."},
    }
    neither = {"not": {"anyOf": [{"required": ["compile"]}, {"required": ["op"]}]}}
    one = [{"required": ["kernel"], **neither}, {"required": ["compile"], "not": {"required": ["kernel"]}}]
    return {**_object(properties, optional=tuple(properties)), "oneOf": one}


def _environment() -> Schema:
    facts = "|".join(facts_of(Target(9, 0)))
    text = {
        "type": "string",
        "maxLength": yaml_fields.TEXT,
        "pattern": _whole(r"(?:[^$]|\$(?!\{[^}]*\})|\$\{target\.(?:" + facts + r")\})*"),
    }
    return {
        "type": "object",
        "propertyNames": _text(NAME),
        "additionalProperties": {"anyOf": [text, {"type": "number"}]},
        "description": "Variables to set for the compilation; ${target.sm_count} and the like are facts of the target.",
    }


def _row(least: int) -> Schema:
    values = {"$ref": "#/$defs/value"}
    return {"type": "object", "propertyNames": _text(NAME), "minProperties": least, "additionalProperties": values}


def _rows() -> Schema:
    return {"type": "array", "maxItems": yaml_fields.MOST, "items": _row(1)}


def _index() -> Schema:
    blob = {"$ref": "#/$defs/blob"}
    library = {"soname": _text(SONAME), "host": {"$ref": "#/$defs/host"}, "blob": blob, "fastcall": blob}
    runtime = _object(library, optional=("fastcall",))
    entry = _object({"sha256": _text(SHA256), "size": _count(index.OP_LIMIT), "artifacts": _count(1_000_000)})
    root = _object(
        {
            "format": {"const": index.FORMAT},
            "version": {"const": index.VERSION},
            "name": _text(CACHE_NAME),
            "toolchain": _table({"type": "string"}, 256),
            "runtimes": _list(runtime, 8),
            "dictionary": _or_null(blob),
            "ops": {**_table(entry, 100_000), "propertyNames": _text(OP_NAME)},
        }
    )
    return _document("precast index.json", root, {"blob": _blob(), "host": _host()})


def _op() -> Schema:
    root = _object(
        {
            "format": {"const": index.OP_FORMAT},
            "version": {"const": index.VERSION},
            "op": _text(OP_NAME),
            "doc": {"type": "string"},
            "keys": _list(_key(), 256),
            "artifacts": _list({"$ref": "#/$defs/artifact"}, 1_000_000),
            "tuning": _list({"$ref": "#/$defs/measured"}, index.TUNING_LIMIT),
        },
        optional=("doc", "tuning"),
    )
    parts = {
        "artifact": _artifact(),
        "measured": _measured(),
        "argument": _argument(),
        "signature": _signature(),
        "blob": _blob(),
        "host": _host(),
        "plan": _plan(),
        "expression": _expression(),
    }
    return _document("precast ops/<op>.json", root, {**parts, "value": _config_value()})


def _key() -> Schema:
    value = {"$ref": "#/$defs/value"}
    return _object(
        {
            "name": _text(NAME),
            "type": _text(KEY_TYPE),
            "tuned": {"type": "boolean"},
            "default": value,
            "choices": _list(value, 1024),
        },
        optional=("default", "choices"),
    )


def _artifact() -> Schema:
    sizes = {n: _count(2**31) for n in ("registers", "shared", "stack", "local")}
    shape = _object(
        {
            "key": _text(SHA256),
            "config": {**_table({"$ref": "#/$defs/value"}, 256), "propertyNames": _text(NAME)},
            "target": _text(_ANY_TARGET),
            "host": _or_null({"$ref": "#/$defs/host"}),
            "kind": {"enum": ["object", "cubin"]},
            "blob": {"$ref": "#/$defs/blob"},
            "symbol": _text(SYMBOL),
            "rank": _count(2**31),
            "signature": {"$ref": "#/$defs/signature"},
            "resources": _list(_object({"kernel": {"type": "string"}, **sizes}), 256),
            "provenance": {"type": "object"},
            "evidence": _list({"type": "object"}, 256),
            "plan": {"$ref": "#/$defs/plan"},
        },
        optional=("resources", "provenance", "evidence", "plan"),
    )
    is_object = {"required": ["kind"], "properties": {"kind": {"const": "object"}}}
    return {**shape, "if": is_object, "then": {"properties": {"host": {"type": "object"}, "plan": False}}}


def _plan() -> Schema:
    expression = {"$ref": "#/$defs/expression"}
    extent = {"type": "array", "minItems": 3, "maxItems": 3, "items": expression}
    extents = dict.fromkeys(("grid", "block", "cluster"), extent)
    return _object({**extents, "shared": expression, "parameters": _list({"type": "string"}, 64)})


def _expression() -> Schema:
    """A number, a size, or a function of two expressions."""
    number = {"type": "integer", "exclusiveMinimum": -(2**62), "exclusiveMaximum": 2**62}
    parts = [{"enum": sorted(launch_plan.FUNCTIONS)}, *[{"$ref": "#/$defs/expression"}] * 2]
    function = {"type": "array", "prefixItems": parts, "minItems": 3, "maxItems": 3}
    return {"anyOf": [number, _text(launch_plan.SIZE), function]}


def _measured() -> Schema:
    size = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    problem = {"type": "object", "minProperties": 1, "maxProperties": 32, "propertyNames": _text(NAME)}
    times = _table({"type": "number", "exclusiveMinimum": 0, "maximum": 1e12}, 10_000)
    return _object(
        {
            "gpu": {"type": "string", "minLength": 1, "maxLength": 128},
            "capability": {"type": "string", "pattern": r"^[1-9][0-9]?\.[0-9]$"},
            "problem": {**problem, "additionalProperties": size},
            "times": {**times, "propertyNames": _text(SHA256)},
        }
    )


def _signature() -> Schema:
    symbol = _object({"dtype": {"type": "string"}, "divisibility": _count(2**31)})
    return _object({"arguments": _list({"$ref": "#/$defs/argument"}, 256), "symbols": _table(symbol, 512)})


def _argument() -> Schema:
    dims = _list({"anyOf": [_int64(), {"type": "string", "maxLength": 64}]}, 32)
    properties = {
        "name": {"type": "string"},
        "kind": {"enum": list(signature.KINDS)},
        "dtype": {"type": "string"},
        "shape": dims,
        "strides": dims,
        "alignment": _count(2**20),
        "divisibility": _count(2**31),
        "device": {"type": "string"},
        "value": {"type": ["string", "number", "boolean", "null"]},
        "members": _list({"$ref": "#/$defs/argument"}, 64),
        "written": {"type": "boolean"},
    }
    return _object(properties, optional=tuple(n for n in properties if n not in ("name", "kind")))


def _blob() -> Schema:
    size = _count(artifact.BLOB_LIMIT)
    return _object(
        {"sha256": _text(SHA256), "size": size, "stored": size, "encoding": {"enum": list(artifact.ENCODINGS)}}
    )


def _host() -> Schema:
    return _object({"arch": {"enum": list(artifact.HOSTS)}, "glibc": _text(GLIBC)})


def _config_value(depth: int = 0) -> Schema:
    """A config value: plain, or lists of such to a bounded depth."""
    real = {"type": "number", "not": {"type": "integer"}}
    plain: list[Schema] = [{"type": "string", "maxLength": 1024}, {"type": ["boolean", "null"]}, _int64(), real]
    deeper: Schema = {"items": _config_value(depth + 1)} if depth < _LIST_DEPTH else {"maxItems": 0}
    return {"anyOf": [*plain, {"type": "array", **deeper}]}


# The parts that the schemas are made of.


def _document(title: str, root: Schema, definitions: Schema) -> Schema:
    return {"$schema": DIALECT, "title": title, **root, "$defs": definitions}


def _object(properties: Schema, optional: Sequence[str] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _table(values: Schema, most: int) -> Schema:
    return {"type": "object", "maxProperties": most, "additionalProperties": values}


def _list(items: Schema, most: int) -> Schema:
    return {"type": "array", "maxItems": most, "items": items}


def _some(item: Schema, description: str) -> Schema:
    """One item, or a list of different ones."""
    several = {"type": "array", "minItems": 1, "maxItems": yaml_fields.MOST, "uniqueItems": True, "items": item}
    return {"anyOf": [item, several], "description": description}


def _text(pattern: re.Pattern[str] | Pattern, description: str = "") -> Schema:
    schema: Schema = {"type": "string", "pattern": _whole(pattern.pattern)}
    return {**schema, "description": description} if description else schema


def _whole(pattern: str) -> str:
    r"""A pattern for the whole text. ``\w`` means more than ASCII in some dialects, and ``$`` allows a last newline."""
    return "^(?:" + pattern.replace(r"\w", "[A-Za-z0-9_]") + r")$(?!\n)"


def _line() -> Schema:
    return {"type": "string", "maxLength": yaml_fields.TEXT}


def _known_gpu() -> Schema:
    return {"enum": list(GPUS)}


def _known_target() -> Schema:
    return _text(re.compile("sm_(?:" + "|".join(f"{c.major}{c.minor}" for c in CAPABILITIES) + ")[af]?"))


def _count(most: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": most}


def _int64() -> Schema:
    return {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [{"type": "null"}, schema]}
