"""The published JSON Schemas: of a manifest, of a cache's ``index.json``, of its ``ops/<op>.json``.

They are for editors and other languages. The readers decide: a schema takes whatever they take, and refuses what they
refuse as far as a schema can express it. It cannot express that a folder exists, that a key is one of the op's, that
arguments or expressions nest too deep, or that 1.0 is no integer.
"""

from __future__ import annotations

import re

from precast.build import schema_parts as part
from precast.build.gpu.profile import facts_of
from precast.build.plan import manifest, yaml_fields
from precast.build.schema_parts import Schema
from precast.loader.format import artifact, index, launch_plan, signature
from precast.loader.format.patterns import CACHE_NAME, GLIBC, KEY_TYPE, NAME, OP_NAME, SHA256, SONAME, SYMBOL
from precast.loader.format.target import Target

NAMES = ("manifest", "index", "op")

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
    root = part.object_of(
        {
            "version": {"const": manifest.VERSION, "description": "The version of this format."},
            "name": part.text(CACHE_NAME, "The name of the cache."),
            "targets": part.some(part.known_target(), "What to build for, such as sm_90a; an entry may have its own."),
            "profiles": part.some(
                part.known_gpu(), "The GPU to assume for its targets, where a kernel asks its GPU anything."
            ),
            "path": part.some(part.line(), "Folders, relative to this file, to import one's own modules from."),
            "kernels": {**entries, "description": "What to build."},
        },
        optional=("targets", "profiles", "path"),
    )
    scalar = {"type": ["string", "number", "boolean", "null"]}
    value = {"anyOf": [scalar, {"type": "array", "items": {"$ref": "#/$defs/value"}}]}
    return part.document("precast manifest", root, {"entry": _entry(), "value": value})


def _entry() -> Schema:
    properties = {
        "kernel": part.text(OP_NAME, "An op that an installed distribution registers."),
        "compile": part.text(manifest.SOURCE, "A function that compiles a kernel, as module:function."),
        "op": part.text(OP_NAME, "The op that the function compiles, where it declares none."),
        "config": {**_row(0), "description": "Keys that a caller must match; lists multiply."},
        "tuned": {**_row(0), "description": "Keys that the loader may choose, preferred value first; lists multiply."},
        "include": {**_rows(), "description": "More rows, beside the matrix."},
        "exclude": {**_rows(), "description": "Rows of the matrix to leave out: those that match a whole item."},
        "targets": part.some(part.known_target(), "The targets of this entry, instead of the manifest's."),
        "emit": part.some({"enum": list(manifest.EMITS)}, "What to make."),
        "env": _environment(),
        "parts": part.some(
            part.text(manifest.PART), "Names for the objects of a function that makes several, in order."
        ),
        "skip_unsupported": {"type": "boolean", "description": "List what cannot be built instead of failing."},
    }
    neither = {"not": {"anyOf": [{"required": ["compile"]}, {"required": ["op"]}]}}
    one = [{"required": ["kernel"], **neither}, {"required": ["compile"], "not": {"required": ["kernel"]}}]
    return {**part.object_of(properties, optional=tuple(properties)), "oneOf": one}


def _environment() -> Schema:
    facts = "|".join(facts_of(Target(9, 0)))
    text = {
        "type": "string",
        "maxLength": yaml_fields.TEXT,
        "pattern": part.whole(r"(?:[^$]|\$(?!\{[^}]*\})|\$\{target\.(?:" + facts + r")\})*"),
    }
    return {
        "type": "object",
        "propertyNames": part.text(NAME),
        "additionalProperties": {"anyOf": [text, {"type": "number"}]},
        "description": "Variables to set for the compilation; ${target.sm_count} and the like are facts of the target.",
    }


def _row(least: int) -> Schema:
    values = {"$ref": "#/$defs/value"}
    return {"type": "object", "propertyNames": part.text(NAME), "minProperties": least, "additionalProperties": values}


def _rows() -> Schema:
    return {"type": "array", "maxItems": yaml_fields.MOST, "items": _row(1)}


def _index() -> Schema:
    blob = {"$ref": "#/$defs/blob"}
    library = {"soname": part.text(SONAME), "host": {"$ref": "#/$defs/host"}, "blob": blob, "fastcall": blob}
    runtime = part.object_of(library, optional=("fastcall",))
    entry = part.object_of(
        {"sha256": part.text(SHA256), "size": part.count(index.OP_LIMIT), "artifacts": part.count(1_000_000)}
    )
    root = part.object_of(
        {
            "format": {"const": index.FORMAT},
            "version": {"const": index.VERSION},
            "name": part.text(CACHE_NAME),
            "toolchain": part.table({"type": "string"}, 256),
            "runtimes": part.list_of(runtime, 8),
            "dictionary": part.or_null(blob),
            "ops": {**part.table(entry, 100_000), "propertyNames": part.text(OP_NAME)},
        }
    )
    return part.document("precast index.json", root, {"blob": _blob(), "host": _host()})


def _op() -> Schema:
    root = part.object_of(
        {
            "format": {"const": index.OP_FORMAT},
            "version": {"const": index.VERSION},
            "op": part.text(OP_NAME),
            "doc": {"type": "string"},
            "keys": part.list_of(_key(), 256),
            "artifacts": part.list_of({"$ref": "#/$defs/artifact"}, 1_000_000),
            "tuning": part.list_of({"$ref": "#/$defs/measured"}, index.TUNING_LIMIT),
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
    return part.document("precast ops/<op>.json", root, {**parts, "value": _config_value()})


def _key() -> Schema:
    value = {"$ref": "#/$defs/value"}
    return part.object_of(
        {
            "name": part.text(NAME),
            "type": part.text(KEY_TYPE),
            "tuned": {"type": "boolean"},
            "default": value,
            "choices": part.list_of(value, 1024),
        },
        optional=("default", "choices"),
    )


def _artifact() -> Schema:
    sizes = {n: part.count(2**31) for n in ("registers", "shared", "stack", "local")}
    shape = part.object_of(
        {
            "key": part.text(SHA256),
            "config": {**part.table({"$ref": "#/$defs/value"}, 256), "propertyNames": part.text(NAME)},
            "target": part.text(_ANY_TARGET),
            "host": part.or_null({"$ref": "#/$defs/host"}),
            "kind": {"enum": ["object", "cubin"]},
            "blob": {"$ref": "#/$defs/blob"},
            "symbol": part.text(SYMBOL),
            "rank": part.count(2**31),
            "signature": {"$ref": "#/$defs/signature"},
            "resources": part.list_of(part.object_of({"kernel": {"type": "string"}, **sizes}), 256),
            "provenance": {"type": "object"},
            "evidence": part.list_of({"type": "object"}, 256),
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
    return part.object_of({**extents, "shared": expression, "parameters": part.list_of({"type": "string"}, 64)})


def _expression() -> Schema:
    """A number, a size, or a function of two expressions."""
    number = {"type": "integer", "exclusiveMinimum": -(2**62), "exclusiveMaximum": 2**62}
    parts = [{"enum": sorted(launch_plan.FUNCTIONS)}, *[{"$ref": "#/$defs/expression"}] * 2]
    function = {"type": "array", "prefixItems": parts, "minItems": 3, "maxItems": 3}
    return {"anyOf": [number, part.text(launch_plan.SIZE), function]}


def _measured() -> Schema:
    size = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    problem = {"type": "object", "minProperties": 1, "maxProperties": 32, "propertyNames": part.text(NAME)}
    times = part.table({"type": "number", "exclusiveMinimum": 0, "maximum": 1e12}, 10_000)
    return part.object_of(
        {
            "gpu": {"type": "string", "minLength": 1, "maxLength": 128},
            "capability": {"type": "string", "pattern": r"^[1-9][0-9]?\.[0-9]$"},
            "problem": {**problem, "additionalProperties": size},
            "times": {**times, "propertyNames": part.text(SHA256)},
        }
    )


def _signature() -> Schema:
    symbol = part.object_of({"dtype": {"type": "string"}, "divisibility": part.count(2**31)})
    return part.object_of(
        {"arguments": part.list_of({"$ref": "#/$defs/argument"}, 256), "symbols": part.table(symbol, 512)}
    )


def _argument() -> Schema:
    dims = part.list_of({"anyOf": [part.int64(), {"type": "string", "maxLength": 64}]}, 32)
    properties = {
        "name": {"type": "string"},
        "kind": {"enum": list(signature.KINDS)},
        "dtype": {"type": "string"},
        "shape": dims,
        "strides": dims,
        "alignment": part.count(2**20),
        "divisibility": part.count(2**31),
        "device": {"type": "string"},
        "value": {"type": ["string", "number", "boolean", "null"]},
        "members": part.list_of({"$ref": "#/$defs/argument"}, 64),
        "written": {"type": "boolean"},
    }
    return part.object_of(properties, optional=tuple(n for n in properties if n not in ("name", "kind")))


def _blob() -> Schema:
    size = part.count(artifact.BLOB_LIMIT)
    return part.object_of(
        {"sha256": part.text(SHA256), "size": size, "stored": size, "encoding": {"enum": list(artifact.ENCODINGS)}}
    )


def _host() -> Schema:
    return part.object_of({"arch": {"enum": list(artifact.HOSTS)}, "glibc": part.text(GLIBC)})


def _config_value(depth: int = 0) -> Schema:
    """A config value: plain, or lists of such to a bounded depth."""
    real = {"type": "number", "not": {"type": "integer"}}
    plain: list[Schema] = [{"type": "string", "maxLength": 1024}, {"type": ["boolean", "null"]}, part.int64(), real]
    deeper: Schema = {"items": _config_value(depth + 1)} if depth < _LIST_DEPTH else {"maxItems": 0}
    return {"anyOf": [*plain, {"type": "array", **deeper}]}
