"""Reading one entry of a manifest. Values of its config are checked later, against the keys of its op."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from precast.build.errors import Location, ManifestError, ToolError
from precast.build.gpu.profile import fact_references, fill_in_facts, profile_of
from precast.build.ipc.environment import why_reserved
from precast.build.plan.declared_inputs import DeclaredInputs, declared_inputs
from precast.build.plan.entry import Entry, Nodes, Program
from precast.build.plan.problems import parse_problems
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node
from precast.build.satellites import satellite
from precast.kernels.authoring.declare import SPEED_FACTS
from precast.loader.contract.format.patterns import NAME, OP_NAME, PART, Pattern
from precast.loader.contract.format.target import Target
from precast.loader.errors import PrecastError

EMITS = ("object", "cubin")
FUNCTION = Pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
SOURCE = Pattern(FUNCTION.pattern + r"(?:@[a-z][a-z0-9_]*)?")
_SHARED = ("targets", "env", "inputs", "skip_unsupported")
_ROWS = ("config", "include", "exclude")
_BUILT = (*_ROWS, "tuned", "emit", "parts", "problems", *_SHARED)
FIELDS_OF_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kernel": ("kernel", *_BUILT),
        "compile": ("compile", "op", "speed_only", *_BUILT),
        "call": ("call", "with", "backward", "libraries", *_ROWS, *_SHARED),
        "script": ("script", "arguments", "libraries", *_SHARED),
    }
)
"""The kinds of entries, by the field that makes an entry one, each with all fields that it may have."""

ENTRY_FIELDS = tuple(dict.fromkeys(name for fields in FIELDS_OF_KIND.values() for name in fields))
"""The fields of entries of all kinds."""
_OP = "a name of an op: write lower-case words with dots, such as 'acme.norm'"
_FUNCTION = "'module:function': write it like 'acme.norms:compile_norm'"


def parse_entry(node: Node, inherited: tuple[Target, ...] | None, folder: Path, shared: DeclaredInputs) -> Entry:
    """An entry; ``inherited`` are the targets of the manifest, None where these are wrong; ``shared`` its inputs."""
    data = yaml_fields.mapping(node, ENTRY_FIELDS)
    kind = _kind(data, node)
    targets = targets_of(data["targets"]) if "targets" in data else inherited or ()
    if not targets and inherited is not None:
        raise ManifestError("no targets: add 'targets: [sm_90a]' here or at the top", node.at)
    config, tuned = (_config(data[k]) if k in data else {} for k in ("config", "tuned"))
    for name in tuned:
        if name in config:
            raise ManifestError(f"{name!r} is in config and in tuned: keep one", tuned[name].named_at)
    named = data.get("kernel" if kind == "kernel" else "op")
    declared = shared.with_more(declared_inputs(data["inputs"], folder)) if "inputs" in data else shared
    env = _environment(data["env"], targets) if "env" in data else {}
    return Entry(
        op=None if named is None else yaml_fields.matching(named, OP_NAME, _OP),
        source=yaml_fields.matching(data["compile"], SOURCE, _FUNCTION) if kind == "compile" else None,
        location=node.at,
        targets=targets,
        config=MappingProxyType(config),
        tuned=MappingProxyType(tuned),
        include=_rows(data, "include"),
        exclude=_rows(data, "exclude"),
        emit=yaml_fields.some_of(data, "emit", EMITS, ("object",)),
        env=MappingProxyType({**declared.variables, **env}),
        inputs=declared.names,
        parts=yaml_fields.some(data["parts"], _part) if "parts" in data else (),
        speed_only=yaml_fields.some_of(data, "speed_only", SPEED_FACTS, ()),
        problems=parse_problems(data["problems"]) if "problems" in data else (),
        problems_at=data["problems"].named_at if "problems" in data else None,
        skip_unsupported=yaml_fields.boolean(data["skip_unsupported"]) if "skip_unsupported" in data else False,
        program=_program(kind, data, folder) if kind in ("call", "script") else None,
    )


def _program(kind: str, data: Nodes, folder: Path) -> Program:
    try:
        parse = satellite("precast.attach.builder.program").parse_program
    except ToolError as error:
        raise ManifestError(str(error), data[kind].named_at) from None
    program: Program = parse(kind, data, folder)
    return program


def _kind(data: Nodes, node: Node) -> str:
    """The kind of an entry, by the field that only this kind has; every other field must be allowed for it."""
    kinds = [kind for kind in FIELDS_OF_KIND if kind in data]
    if len(kinds) != 1:
        raise ManifestError(
            "an entry has one of 'kernel', 'compile', 'call' and 'script': write exactly one of them", node.at
        )
    for name, value in data.items():
        if name not in FIELDS_OF_KIND[kinds[0]]:
            others = [repr(kind) for kind, fields in FIELDS_OF_KIND.items() if name in fields]
            raise ManifestError(
                f"{name!r} is a field of {' and '.join(others)}, not of {kinds[0]!r}: remove it", value.named_at
            )
    return kinds[0]


def _config(node: Node) -> dict[str, Node]:
    data = yaml_fields.mapping(node)
    for name, value in data.items():
        if not NAME.admits(name):
            raise ManifestError(f"{name[:80]!r} is not a config key: use the name of a parameter", value.named_at)
        _check_value(value)
    return data


def _check_value(node: Node) -> None:
    if isinstance(node.value, dict):
        raise ManifestError("a config value cannot be a mapping: write a plain value or a list of them", node.at)
    for item in node.value if isinstance(node.value, tuple) else ():
        _check_value(item)


def _rows(data: Nodes, name: str) -> tuple[Node, ...]:
    rows = yaml_fields.items(data[name]) if name in data else ()
    for row in rows:
        if not _config(row):
            raise ManifestError(f"an empty row in {name!r}: give at least one config key", row.at)
    return rows


def targets_of(node: Node) -> tuple[Target, ...]:
    """The targets under ``targets``."""
    return yaml_fields.some(node, target_of)


def target_of(node: Node) -> Target:
    """The target that a value names, for which there is a GPU; raises ManifestError."""
    try:
        target = Target.parse(yaml_fields.text(node))
        profile_of(target)
    except ManifestError:
        raise
    except PrecastError as error:
        raise ManifestError(str(error), node.at) from None
    return target


def _part(node: Node) -> str:
    return yaml_fields.matching(node, PART, "the name of a part: use lower-case letters, digits and _")


def _environment(node: Node, targets: tuple[Target, ...]) -> dict[str, str]:
    result = {}
    for name, value in yaml_fields.mapping(node).items():
        if not NAME.admits(name):
            raise ManifestError(f"{name[:80]!r} is not a variable: use letters, digits and _", value.named_at)
        if reason := why_reserved(name):
            raise ManifestError(f"{name} cannot be set: {reason}", value.named_at)
        if isinstance(value.value, bool):
            raise ManifestError(
                f'{name} is a truth value, and variables are text: write "1", "0" or "true" in quotes', value.at
            )
        if isinstance(value.value, (int, float)):
            result[name] = str(value.value)
            continue
        result[name] = yaml_fields.text(value)
        _check_facts(result[name], targets, value.at)
    return result


def _check_facts(text: str, targets: tuple[Target, ...], at: Location) -> None:
    for reference in fact_references(text):
        try:
            for target in targets:
                fill_in_facts(f"${{{reference}}}", target)
        except PrecastError as error:
            raise ManifestError(f"${{{reference[:80]}}}: {error}", at) from None
