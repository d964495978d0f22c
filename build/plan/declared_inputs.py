"""What a manifest declares under ``inputs``: files, programs, packages and variables that a kernel reads."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from precast.build.errors import ManifestError
from precast.build.inputs.closure import declared_input
from precast.build.ipc.environment import passed_variables
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node
from precast.loader.errors import FormatError

_DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INPUTS: Mapping[str, Callable[[str], object]] = {
    "files": lambda text: "\0" not in text,
    "programs": lambda text: "/" not in text,
    "packages": _DISTRIBUTION.fullmatch,
}


class DeclaredInputs(NamedTuple):
    """Declared inputs: their names, and variables with their values."""

    names: tuple[str, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})

    def with_more(self, other: DeclaredInputs) -> DeclaredInputs:
        """These inputs and others."""
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return DeclaredInputs(names, {**self.variables, **other.variables})


def declared_inputs(node: Node, base: Path) -> DeclaredInputs:
    """The inputs under ``inputs``; files are relative to ``base``."""
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
        return DeclaredInputs(tuple(names), passed_variables(texts, os.environ, "inputs"))
    except FormatError as error:
        raise ManifestError(str(error), data["variables"].at) from None
