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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from precast.build.errors import Location, ManifestError, ManifestErrors
from precast.build.gpu.profile import profile_named
from precast.build.plan.declared_inputs import DeclaredInputs, declared_inputs
from precast.build.plan.entry import Entry
from precast.build.plan.entry_reader import parse_entry, targets_of
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node, read_yaml
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError

VERSION = 1
ROOT_FIELDS = ("version", "name", "targets", "profiles", "path", "inputs", "tuning", "kernels")
"""The fields at the top of a manifest."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


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
            targets = targets_of(root["targets"])
    entries: list[Entry] = []
    shared = DeclaredInputs()
    with errors.collected():
        shared = declared_inputs(root["inputs"], path.parent) if "inputs" in root else shared
    with errors.collected():
        kernels = yaml_fields.required(root, "kernels", node)
        items = yaml_fields.items(kernels)
        for item in items:
            with errors.collected():
                entries.append(parse_entry(item, targets, path.parent, shared))
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


def _profile(node: Node) -> str:
    try:
        return profile_named(yaml_fields.text(node)).name
    except TargetError as error:
        raise ManifestError(str(error), node.at) from None


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


_ROOT: Mapping[str, Callable[[Node, Path], Any]] = {
    "name": _cache_name,
    "path": lambda node, base: yaml_fields.some(node, lambda item: _folder(item, base)),
    "profiles": lambda node, base: yaml_fields.some(node, _profile),
    "tuning": _tuning,
}
"""The fields at the top, beside targets and kernels, with what reads them."""
_FIELDS = {"path": "search"}
