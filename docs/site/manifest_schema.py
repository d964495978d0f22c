"""The JSON Schema of a manifest."""

from __future__ import annotations

import re

from schema_parts import (
    Schema,
    document,
    line,
    list_of,
    object_of,
    one_or_more,
    text_of,
    whole_pattern,
)

from precast.build.gpu.gpu_table import GPUS
from precast.build.gpu.profile import CAPABILITIES, facts_of
from precast.build.plan import entry_reader, manifest
from precast.build.plan.entry_reader import FIELDS_OF_KIND
from precast.build.plan.yaml import fields as yaml_fields
from precast.kernels.authoring.declare import SPEED_FACTS
from precast.loader.contract.format.patterns import CACHE_NAME, LIBRARY_NAME, NAME, OP_NAME, PART
from precast.loader.contract.format.target import Target


def manifest_schema() -> Schema:
    """The schema of a manifest."""
    entries = {"type": "array", "minItems": 1, "maxItems": yaml_fields.MOST, "items": {"$ref": "#/$defs/entry"}}
    root = object_of(
        {
            "version": {"const": manifest.VERSION, "description": "The version of this format."},
            "name": text_of(CACHE_NAME, "The name of the cache."),
            "targets": one_or_more(_known_target(), "What to build for, such as sm_90a; an entry may have its own."),
            "profiles": one_or_more(_known_gpu(), "The GPUs to build for, where a kernel queries its GPU."),
            "path": one_or_more(line(), "Folders, relative to this file, to import one's own modules from."),
            "inputs": _inputs(),
            "tuning": one_or_more(line(), "Files of measurements, relative to this file, to put into the cache."),
            "kernels": {**entries, "description": "What to build."},
        },
        optional=("targets", "profiles", "path", "inputs", "tuning"),
    )
    scalar = {"type": ["string", "number", "boolean", "null"]}
    value = {"anyOf": [scalar, {"type": "array", "items": {"$ref": "#/$defs/value"}}]}
    return document("precast manifest", root, {"entry": _entry(), "value": value, **_arguments()})


def _entry() -> Schema:
    properties = {
        "kernel": text_of(OP_NAME, "An op that an installed distribution registers."),
        "compile": text_of(entry_reader.SOURCE, "A function that compiles a kernel, as module:function."),
        "call": text_of(entry_reader.FUNCTION, "A function to call with sample tensors, as module:function."),
        "with": {
            "type": "object",
            "propertyNames": text_of(NAME),
            "additionalProperties": {"$ref": "#/$defs/argument"},
            "description": "The arguments of the call by name; a name in a tensor is a key of config.",
        },
        "backward": {"type": "boolean", "description": "Run the backward pass of what the call returns as well."},
        "script": {**line(), "description": "A script to run, relative to the manifest."},
        "arguments": {
            **list_of({"type": ["string", "number"]}, yaml_fields.MOST),
            "description": "What the script receives.",
        },
        "libraries": one_or_more(text_of(LIBRARY_NAME), "The libraries to attach for the call or the script."),
        "op": text_of(OP_NAME, "The op that the function compiles, where it declares none."),
        "config": {**_row(0), "description": "Keys that a caller must match; lists multiply."},
        "tuned": {**_row(0), "description": "Keys that the loader may choose, preferred value first; lists multiply."},
        "include": {**_rows(), "description": "More rows, beside the matrix."},
        "exclude": {**_rows(), "description": "Rows of the matrix to leave out: those that match a whole item."},
        "targets": one_or_more(_known_target(), "The targets of this entry, instead of the manifest's."),
        "emit": one_or_more({"enum": list(entry_reader.EMITS)}, "What to make."),
        "env": _environment(),
        "inputs": _inputs(),
        "parts": one_or_more(text_of(PART), "Names for the objects of a function that compiles several, in order."),
        "speed_only": one_or_more({"enum": list(SPEED_FACTS)}, "Facts of the GPU that only cost speed if wrong."),
        "problems": _problems(),
        "skip_unsupported": {"type": "boolean", "description": "List what cannot be built instead of failing."},
    }
    kinds = [
        {"required": [kind], "propertyNames": {"enum": [name for name in properties if name in fields]}}
        for kind, fields in FIELDS_OF_KIND.items()
    ]
    return {**object_of(properties, optional=tuple(properties)), "oneOf": kinds}


def _arguments() -> Schema:
    """The definitions of an argument of a call. In the fields of a tensor a text is the name of a key."""
    argument, numbers = {"$ref": "#/$defs/argument"}, {"$ref": "#/$defs/numbers"}
    sizes = list_of({"anyOf": [text_of(NAME), {"type": "integer", "minimum": 0}]}, yaml_fields.MOST)
    flag = {"anyOf": [text_of(NAME), {"type": "boolean"}]}
    common = {"dtype": line(), "requires_grad": flag}
    shaped = object_of({**common, "shape": sizes, "strides": sizes}, optional=("strides", "requires_grad"))
    of_values = object_of({**common, "values": numbers}, optional=("requires_grad",))
    plain = {"type": ["string", "number", "boolean", "null"]}
    return {
        "argument": {"anyOf": [plain, list_of(argument, yaml_fields.MOST), shaped, of_values]},
        "numbers": {"anyOf": [text_of(NAME), {"type": ["number", "boolean"]}, list_of(numbers, yaml_fields.MOST)]},
    }


_PROGRAM = re.compile(r"[^/\0]{1,255}")


def _inputs() -> Schema:
    fields = {
        "files": one_or_more(line(), "Files and folders, relative to the manifest."),
        "variables": one_or_more(text_of(NAME), "Variables of the environment of the build."),
        "programs": one_or_more(text_of(_PROGRAM), "Programs that the kernel starts, by name."),
        "packages": one_or_more(line(), "Installed distributions that no import statement names."),
    }
    described = {"description": "What the kernel reads beside its modules; nothing else is there."}
    return {**object_of(fields, optional=tuple(fields)), **described}


def _environment() -> Schema:
    facts = "|".join(facts_of(Target(9, 0)))
    text = {
        "type": "string",
        "maxLength": yaml_fields.TEXT,
        "pattern": whole_pattern(r"(?:[^$]|\$(?!\{[^}]*\})|\$\{target\.(?:" + facts + r")\})*"),
    }
    return {
        "type": "object",
        "propertyNames": text_of(NAME),
        "additionalProperties": {"anyOf": [text, {"type": "number"}]},
        "description": "Variables to set for the compilation; ${target.sm_count} and the like are facts of the target.",
    }


def _row(least: int) -> Schema:
    values = {"$ref": "#/$defs/value"}
    return {"type": "object", "propertyNames": text_of(NAME), "minProperties": least, "additionalProperties": values}


def _rows() -> Schema:
    return {"type": "array", "maxItems": yaml_fields.MOST, "items": _row(1)}


def _problems() -> Schema:
    """Sizes by name, one or a list of them; or lists of sizes, for several names that go together."""
    size = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    sizes = {"type": "array", "minItems": 1, "maxItems": yaml_fields.MOST, "items": size}
    together = {"type": "array", "minItems": 1, "maxItems": yaml_fields.MOST, "items": sizes}
    name, space = NAME.pattern, r"[ \t]*"
    several = f"{space}{name}(?:{space},{space}{name})+{space}"
    grid = {
        "type": "object",
        "minProperties": 1,
        "patternProperties": {
            whole_pattern(f"{space}{name}{space}"): {"anyOf": [size, sizes]},
            whole_pattern(several): together,
        },
        "additionalProperties": False,
    }
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": yaml_fields.MOST,
        "items": grid,
        "description": "What to measure the variants at; lists multiply.",
    }


def _known_gpu() -> Schema:
    return {"enum": list(GPUS)}


def _known_target() -> Schema:
    return text_of(re.compile("sm_(?:" + "|".join(f"{c.major}{c.minor}" for c in CAPABILITIES) + ")[af]?"))
