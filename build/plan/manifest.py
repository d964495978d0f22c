"""Manifests: files that list the kernels to build, read and checked, not yet expanded.

    version: 1
    name: acme-norms
    targets: [sm_90a, sm_100a]
    profiles: [H200]
    path: [.]
    kernels:
      - kernel: rmsnorm
        config: {dtype: [float16, bfloat16], hidden: [4096, 8192]}
        tuned: {threads: [128, 256]}
      - compile: "acme.norms:compile_norm"
        op: acme.norm
        config: {n: 1024}
      - call: "quack:softmax"
        with: {x: {dtype: bfloat16, shape: [64, N]}}
        config: {N: [4096, 8192]}

``docs/manifest.md`` describes every field. What the lists mean depends on the types of the op's keys: see
``precast.build.plan.matrix``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from precast.build.errors import Location, ManifestError, ManifestErrors, ToolError
from precast.build.gpu.profile import Profile, fact_references, facts_behind, fill_in_facts, profile_named, profile_of
from precast.build.inputs.closure import declared_input
from precast.build.ipc.environment import passed_variables, why_reserved
from precast.build.plan.manifest_fields import ENTRY_FIELDS, FIELDS_OF_KIND, ROOT_FIELDS
from precast.build.plan.problems import Problem, parse_problems
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node, read_yaml
from precast.build.satellites import satellite
from precast.kernels.authoring.declare import SPEED_FACTS
from precast.loader.contract.format.patterns import CACHE_NAME, NAME, OP_NAME, PART, Pattern
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError, PrecastError, TargetError
from precast.loader.machine.facts import Answer

VERSION = 1
EMITS = ("object", "cubin")
FUNCTION = Pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
SOURCE = Pattern(FUNCTION.pattern + r"(?:@[a-z][a-z0-9_]*)?")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OP = "a name of an op: write lower-case words with dots, such as 'acme.norm'"
_FUNCTION = "'module:function': write it like 'acme.norms:compile_norm'"

Nodes = Mapping[str, Node]
Environment = tuple[tuple[str, str], ...]
"""Variables and their values, sorted by name."""


class Program(Protocol):
    """What an entry with ``call`` or ``script`` runs. ``precast.attach.builder.program`` reads it."""

    @property
    def source(self) -> str | Path:
        """The function, ``module:function``, or the script."""


class KernelRef(NamedTuple):
    """A kernel function as an entry names it: its op, its ``module:function``, or both; and the entry's variables."""

    op: str | None = None
    source: str | None = None
    env: Environment = ()
    inputs: tuple[str, ...] = ()


def environment_of(env: Mapping[str, str]) -> Environment:
    """Variables in their order, as a value that can be a key.

    >>> environment_of({"B": "2", "A": "1"})
    (('A', '1'), ('B', '2'))
    """
    return tuple(sorted(env.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item of ``kernels``. ``source`` is ``module:function``, or None for a registered op.

    An entry with a ``program`` has neither: ``precast.attach.builder.program_recorder`` replaces it by entries of the
    kernels that the program requests.

    ``config``, ``tuned`` and the rows of ``include`` and ``exclude`` keep their nodes: values are checked against the
    op's keys later, and an error then points at the value.
    """

    op: str | None
    source: str | None
    location: Location
    targets: tuple[Target, ...]
    config: Nodes = field(default_factory=dict)
    tuned: Nodes = field(default_factory=dict)
    include: tuple[Node, ...] = ()
    exclude: tuple[Node, ...] = ()
    emit: tuple[str, ...] = ("object",)
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    speed_only: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    problems_at: Location | None = None
    gpus: tuple[str, ...] = ()  # the profiles for which a program requested the kernel; all if empty
    skip_unsupported: bool = False
    program: Program | None = None

    def environment(self, target: Target, profile: Profile | None = None) -> dict[str, str]:
        """``env`` for one target, with the facts of its usual GPU, or of another, filled in."""
        return {name: fill_in_facts(value, target, profile) for name, value in self.env.items()}

    def assumed(self, profile: Profile) -> dict[str, Answer]:
        """The facts of a GPU that ``env`` uses."""
        return profile.answers(name for value in self.env.values() for name in facts_behind(value))

    @property
    def ref(self) -> KernelRef:
        """The kernel to describe before the entry can be expanded. It is imported as for the entry's first target."""
        return KernelRef(self.op, self.source, environment_of(self.environment(self.targets[0])), self.inputs)


class TuningPath(NamedTuple):
    """A file of measurements that a manifest names, and the location of the name."""

    path: Path
    at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One manifest file. ``search`` holds the folders of ``path:``, ``profiles`` the names of GPUs to build for.

    The files of ``tuning`` are read when the manifest becomes a plan: what is compiled does not depend on them.
    """

    path: Path
    name: str
    targets: tuple[Target, ...]
    entries: tuple[Entry, ...]
    search: tuple[Path, ...] = ()
    profiles: tuple[str, ...] = ()
    tuning: tuple[TuningPath, ...] = ()


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest file; raises ManifestError."""
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        what = (
            "is a cache: name the manifests before it" if (path / "index.json").exists() else "is a folder: name a file"
        )
        raise ManifestError(what, Location(str(path), 1, 1)) from None
    except OSError as error:
        raise ManifestError(
            f"cannot be read: {error.strerror}: give the path of a manifest", Location(str(path), 1, 1)
        ) from None
    return parse_manifest(data, path)


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """Read and check the text of a manifest at ``path``.

    >>> text = b"{version: 1, name: x, targets: sm_90a, kernels: [{kernel: rmsnorm, config: {hidden: 64}}]}"
    >>> parse_manifest(text, Path("m.yaml")).entries[0].op
    'rmsnorm'
    """
    node = read_yaml(data, str(path))
    root = yaml_fields.mapping(node, ROOT_FIELDS)
    version = yaml_fields.required(root, "version", node)
    if version.value != VERSION or isinstance(version.value, bool):
        raise ManifestError(f"version {version.plain()!r} is not supported: write 'version: {VERSION}'", version.at)
    errors = ManifestErrors()
    targets: tuple[Target, ...] | None = ()
    if "targets" in root:
        targets = None  # unless they can be read
        with errors.collected():
            targets = _targets(root["targets"])
    entries: list[Entry] = []
    shared = _Declared()
    with errors.collected():
        shared = _declared(root["inputs"], path.parent) if "inputs" in root else shared
    with errors.collected():
        kernels = yaml_fields.required(root, "kernels", node)
        items = yaml_fields.items(kernels)
        for item in items:
            with errors.collected():
                entries.append(_entry(item, targets, path.parent, shared))
        if not items:
            raise ManifestError("no kernel is listed: add '- kernel: ..' or '- compile: ..'", kernels.at)
    fields: dict[str, Any] = {}
    for name, read in _ROOT.items():
        with errors.collected():
            if name in root or name == "name":
                fields[_FIELDS.get(name, name)] = read(yaml_fields.required(root, name, node), path.parent)
    errors.check()
    return Manifest(path=path, targets=targets or (), entries=tuple(entries), **fields)


def _cache_name(node: Node, base: Path) -> str:
    return yaml_fields.matching(node, CACHE_NAME, "a name: use lower-case letters, digits and single dashes")


class _Declared(NamedTuple):
    """Declared inputs: their names, and variables with their values."""

    names: tuple[str, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})

    def with_more(self, other: _Declared) -> _Declared:
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return _Declared(names, {**self.variables, **other.variables})


def _entry(node: Node, inherited: tuple[Target, ...] | None, folder: Path, shared: _Declared) -> Entry:
    """An entry; ``inherited`` are the targets of the manifest, None where these are wrong; ``shared`` its inputs."""
    data = yaml_fields.mapping(node, ENTRY_FIELDS)
    kind = _kind(data, node)
    targets = _targets(data["targets"]) if "targets" in data else inherited or ()
    if not targets and inherited is not None:
        raise ManifestError("no targets: add 'targets: [sm_90a]' here or at the top", node.at)
    config, tuned = (_config(data[k]) if k in data else {} for k in ("config", "tuned"))
    for name in tuned:
        if name in config:
            raise ManifestError(f"{name!r} is in config and in tuned: keep one", tuned[name].named_at)
    named = data.get("kernel" if kind == "kernel" else "op")
    declared = shared.with_more(_declared(data["inputs"], folder)) if "inputs" in data else shared
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


def _targets(node: Node) -> tuple[Target, ...]:
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


def _profile(node: Node) -> str:
    try:
        return profile_named(yaml_fields.text(node)).name
    except TargetError as error:
        raise ManifestError(str(error), node.at) from None


def _part(node: Node) -> str:
    return yaml_fields.matching(node, PART, "the name of a part: use lower-case letters, digits and _")


def _tuning(node: Node, base: Path) -> tuple[TuningPath, ...]:
    """The files under ``tuning``. A file need not exist yet: it may be the one that is to be measured."""
    yaml_fields.some(node, yaml_fields.text)
    nodes = node.value if isinstance(node.value, tuple) else (node,)
    return tuple(TuningPath(base / yaml_fields.text(item), item.at) for item in nodes)


def _folder(node: Node, base: Path) -> Path:
    """A folder of ``path``, relative to the manifest; ``${NAME}`` in it is a variable of the environment."""

    def value(match: re.Match[str]) -> str:
        variable = dict(os.environ).get(match[1])
        if not variable:
            raise ManifestError(
                f"{text!r} uses the variable {match[1]}, which is not set: set it to a folder, "
                f"such as {match[1]}=/path/to/folder",
                node.at,
            )
        return variable

    text = yaml_fields.text(node)
    text = _VARIABLE.sub(value, text)
    return yaml_fields.existing_path(
        base / text, Path.is_dir, f"{text!r} is not a folder beside the manifest: create it or correct the path", node
    )


def _declared(node: Node, base: Path) -> _Declared:
    data = yaml_fields.mapping(node, (*_INPUTS, "variables"))
    names = []
    for kind, valid in _INPUTS.items():
        texts = yaml_fields.some(data[kind], yaml_fields.text) if kind in data else ()
        for text in texts:
            if not text or not valid(text):
                raise ManifestError(f"{text[:80]!r} cannot be one of {kind!r}: write its name", data[kind].at)
            names.append(declared_input(kind, text, base))
    try:
        texts = yaml_fields.some(data["variables"], yaml_fields.text) if "variables" in data else ()
        return _Declared(tuple(names), passed_variables(texts, os.environ, "inputs"))
    except FormatError as error:
        raise ManifestError(str(error), data["variables"].at) from None


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


_INPUTS: Mapping[str, Callable[[str], object]] = {
    "files": lambda text: "\0" not in text,
    "programs": lambda text: "/" not in text,
    "packages": _DISTRIBUTION.fullmatch,
}
_ROOT: Mapping[str, Callable[[Node, Path], Any]] = {
    "name": _cache_name,
    "path": lambda node, base: yaml_fields.some(node, lambda item: _folder(item, base)),
    "profiles": lambda node, base: yaml_fields.some(node, _profile),
    "tuning": _tuning,
}
"""The fields at the top, beside targets and kernels, with what reads them."""
_FIELDS = {"path": "search"}
