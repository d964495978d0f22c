"""The field ``toolchain`` of a manifest: the compiler's version, the CUDA major version, and the libraries.

    toolchain: {dsl: "4.7.1", cuda: 13, python: ">=3.12", requirements: [quack-kernels==0.6.5]}

Or a lock, which lists every distribution with its version and its digests:

    toolchain: {lock: requirements.lock, python: "3.12"}

Whether it can be installed is known only when the environment is created: see ``precast.build.toolchains``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from precast.build.errors import Location, ManifestError
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node
from precast.loader.contract.format.patterns import Pattern

CUDAS = (12, 13)
DSL_VERSION = Pattern(r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}(?:(?:a|b|rc|\.dev|\.post)[0-9]{1,4})?")
_NUMBER = r"3\.[0-9]{1,2}(?:\.[0-9]{1,2})?"
PYTHON = Pattern(rf"{_NUMBER}|(?:~=|==|!=|<=|>=|<|>) ?{_NUMBER}(?: ?, ?(?:~=|==|!=|<=|>=|<|>) ?{_NUMBER}){{0,3}}")
REQUIREMENT = Pattern(r"[A-Za-z0-9][^@]{0,1000}")  # packaging checks the rest
_PLAIN_PYTHON = re.compile(_NUMBER)

TOOLCHAIN_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "dsl": (
            'The version of the DSL, in quotes, such as `"4.7.1"`. The newest that `requirements` allow if left out.'
        ),
        "cuda": "The CUDA major version that the DSL compiles with: `12` or `13`. `12` if left out.",
        "requirements": (
            "The distributions that its kernels need beside the DSL, as pip writes them, such as "
            "`quack-kernels==0.6.5`: one, or a list."
        ),
        "python": (
            'The version of Python, in quotes, such as `"3.12"` or `">=3.12"`. The Python that runs the build is taken '
            "if it fits."
        ),
        "lock": (
            "A file, relative to the manifest, with every distribution, its version and its digests, in place of "
            "`dsl`, `cuda` and `requirements`. `precast toolchains --lock` writes it."
        ),
    }
)
"""The fields of ``toolchain``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainSpec:
    """A toolchain as a manifest describes it. Two with the same fields are equal, wherever they are written."""

    dsl: str = ""
    cuda: int = CUDAS[0]
    requirements: tuple[str, ...] = ()
    python: str = ""
    lock: Path | None = None
    location: Location = field(compare=False)

    def __str__(self) -> str:
        if self.lock is not None:
            return self.lock.name
        return ", ".join([f"DSL {self.dsl}" if self.dsl else "DSL", f"CUDA {self.cuda}", *self.requirements])

    def admits_python(self, version: str) -> bool:
        """Whether a Python of this version can be used.

        >>> here = Location("m.yaml", 1, 1)
        >>> ToolchainSpec(python="3.12", location=here).admits_python("3.12.1")
        True
        >>> ToolchainSpec(python=">=3.12", location=here).admits_python("3.11.9")
        False
        """
        text = f"=={self.python}.*" if _PLAIN_PYTHON.fullmatch(self.python) else self.python
        return SpecifierSet(text).contains(version)


def parse_toolchain(node: Node, folder: Path) -> ToolchainSpec:
    """Read the field ``toolchain`` of a manifest in a folder; raises ManifestError."""
    data = yaml_fields.mapping(node, tuple(TOOLCHAIN_FIELDS))
    lock = data.get("lock")
    for name in ("dsl", "cuda", "requirements") if lock is not None else ():
        if name in data:
            raise ManifestError(f"a lock has all versions already: remove {name!r}, or 'lock'", data[name].named_at)
    if not {"dsl", "requirements", "lock"} & data.keys():
        raise ManifestError("the toolchain has no version: write 'dsl', 'requirements' or 'lock'", node.at)
    return ToolchainSpec(
        dsl=_version(data["dsl"]) if "dsl" in data else "",
        cuda=_cuda(data["cuda"]) if "cuda" in data else CUDAS[0],
        requirements=tuple(sorted(yaml_fields.some(data["requirements"], _requirement)))
        if "requirements" in data
        else (),
        python=_python(data["python"]) if "python" in data else "",
        lock=None if lock is None else _lock(lock, folder),
        location=node.at,
    )


def _version(node: Node) -> str:
    if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        raise ManifestError(f'{node.value} is a number: write the version in quotes, such as "4.7.1"', node.at)
    return yaml_fields.matching(node, DSL_VERSION, 'a version of the DSL: write one like "4.7.1"')


def _cuda(node: Node) -> int:
    if isinstance(node.value, bool) or node.value not in CUDAS:
        allowed = " or ".join(map(str, CUDAS))
        raise ManifestError(f"the DSL does not support CUDA {node.plain()!r}: write {allowed}", node.at)
    return int(str(node.value))


def _requirement(node: Node) -> str:
    text = yaml_fields.text(node)
    try:
        requirement = Requirement(text)
        if requirement.url:
            raise ManifestError(
                f"{text[:80]!r} has a URL: write a version, and name the folder of its wheel with --find-links",
                node.at,
            )
        return str(requirement)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise ManifestError(
            f"{text[:80]!r} is not a requirement ({reason}): write it like quack-kernels==0.6.5", node.at
        ) from None


def _python(node: Node) -> str:
    if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        raise ManifestError(f'{node.value} is a number: write the version in quotes, such as "3.12"', node.at)
    text = yaml_fields.matching(node, PYTHON, 'a version of Python: write it like "3.12" or ">=3.12"')
    try:
        if not _PLAIN_PYTHON.fullmatch(text):
            SpecifierSet(text)
    except InvalidSpecifier:
        raise ManifestError(f'{text!r} is not a version of Python: write it like "3.12" or ">=3.12"', node.at) from None
    return text


def _lock(node: Node, folder: Path) -> Path:
    text = yaml_fields.text(node)
    reason = (
        f"{text!r} is not a file beside the manifest: write it with 'precast toolchains --lock', or correct the path"
    )
    return yaml_fields.existing_path(folder / text, Path.is_file, reason, node)
