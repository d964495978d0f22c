"""Descriptions of kernels and refusals by ``supports``, kept in the memo under the digest of their sources.

They are valid while the kernel's declared inputs are unchanged, too: its module may read the defaults of its parameters
from a file. There is nothing else that it could read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from precast.build.disk.memo import Memo, memo_key
from precast.build.inputs.closure import Closures, Reads, reads_of
from precast.build.link.toolchain import compiler_versions
from precast.build.plan.describer import Describer, Description, NotDescribed, describing, function_of
from precast.build.plan.entry import Environment, KernelRef, environment_of
from precast.build.plan.variant import Variant
from precast.build.satellites import satellite
from precast.kernels.authoring.adapter import GROUP as ADAPTERS
from precast.loader.contract.format.config import to_json
from precast.loader.contract.format.index import key_to_json
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError, PrecastError

# The code that reads a declaration: when it changes, so may the description.
_READERS = (
    "precast.build.child.describer_main",
    "precast.kernels.authoring.declare",
    "precast.loader.contract.format.config",
)


class DescriptionCache:
    """Descriptions of kernels. A child process imports a kernel only if the memo has no description of it.

    An entry's ``env:`` must be set when its kernel is imported: each environment has its own child process, and so have
    kernels with other declared inputs.
    """

    def __init__(
        self,
        search: Sequence[Path],
        target: Target,
        *,
        notes: Memo | None,
        closures: Closures,
    ) -> None:
        self._search, self._target = search, target
        self._notes, self._closures = notes, closures
        self._sources = closures.sources
        self._stack = ExitStack()
        self._children: dict[_Surroundings, Describer] = {}
        self._reads: dict[_Surroundings, list[Reads]] = {}  # of the kernels that are described there
        self._keys: dict[str, str] = {}  # of every source with a ``supports``: its key in the memo, or ""
        self._described: dict[str, str] = {}  # the same of every source
        self._readers: list[Any] = []

    def __enter__(self) -> DescriptionCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def describe(self, kernels: Sequence[KernelRef]) -> dict[KernelRef, Description | NotDescribed]:
        """The declaration of each kernel."""
        unique = list(dict.fromkeys(kernels))
        for kernel in unique:
            if function := function_of(kernel):
                reads = reads_of(str(function), kernel.inputs)
                self._reads.setdefault(_Surroundings(kernel.env, kernel.inputs), []).append(reads)
        keys = {kernel: self._key(kernel) for kernel in unique}
        descriptions: dict[KernelRef, Description | NotDescribed] = {
            kernel: noted for kernel, key in keys.items() if key and (noted := self._noted(key)) is not None
        }
        groups: dict[_Surroundings, list[KernelRef]] = {}
        for kernel in (kernel for kernel in unique if kernel not in descriptions):
            groups.setdefault(_Surroundings(kernel.env, kernel.inputs), []).append(kernel)
        for where, group in groups.items():
            for kernel, answer in self._child(where).describe(group).items():
                descriptions[kernel] = answer
                if isinstance(answer, Description):
                    self._note("kernels", keys[kernel], _to_json(answer), answer.source, kernel.inputs)
        for kernel, answer in descriptions.items():
            if isinstance(answer, Description):
                before = self._described.get(answer.source)
                self._described[answer.source] = memo_key(before, keys[kernel]) if keys[kernel] else ""
                if answer.has_supports:
                    self._keys[answer.source] = self._described[answer.source]
        return descriptions

    def refusals(self, variants: Sequence[Variant]) -> list[str | None]:
        """For each variant, the reason why its kernel's ``supports`` refuses it, or None."""
        reasons: list[str | None] = [None] * len(variants)
        positions = [(n, (v.source, _surroundings(v))) for n, v in enumerate(variants) if v.source in self._keys]
        groups: dict[tuple[str, _Surroundings], list[int]] = {}
        for number, group in positions:
            groups.setdefault(group, []).append(number)
        for (source, where), numbers in sorted(groups.items()):
            answers = self._refusals(source, where, [variants[n] for n in numbers])
            for number, reason in zip(numbers, answers, strict=True):
                reasons[number] = reason
        return reasons

    def size_names(self, variants: Sequence[Variant]) -> list[frozenset[str]]:
        """For each variant, the names of the sizes in its kernel's problems; none if it declares no problems."""
        return [self._size_names(variant) for variant in variants]

    def _size_names(self, variant: Variant) -> frozenset[str]:
        where, noted_as = _surroundings(variant), self._described.get(variant.source, "")
        key = noted_as and memo_key(noted_as, where, variant.identity)
        noted = self._notes.get("sizes", key) if self._notes and key else None
        if isinstance(noted, list) and all(isinstance(name, str) for name in noted):
            return frozenset(noted)
        (answer,) = self._child(where).size_names([variant])
        self._note("sizes", key, sorted(answer), variant.source, where.inputs)
        return answer

    def _refusals(self, source: str, where: _Surroundings, variants: list[Variant]) -> list[str | None]:
        rows = [[v.op, {n: to_json(c) for n, c in v.config.items()}, str(v.target)] for v in variants]
        key = self._keys[source] and memo_key(self._keys[source], where, rows)
        noted = self._notes.get("supports", key) if self._notes and key else None
        if isinstance(noted, list) and len(noted) == len(rows) and all(isinstance(r, (str, type(None))) for r in noted):
            return noted
        answer = list(self._child(where).refusals(variants))
        # A refusal may depend on installed packages, which the key does not cover: it is not kept.
        if not any(answer):
            self._note("supports", key, answer, source, where.inputs)
        return answer

    def _note(self, kind: str, key: str, value: Any, source: str, inputs: tuple[str, ...]) -> None:
        """Keep what a child process replied, unless what the key was made of has changed meanwhile."""
        if self._notes and key and self._closures.are_as_read(source, inputs):
            self._notes.put(kind, key, value)

    def _key(self, kernel: KernelRef) -> str:
        """The key of a description; empty for a kernel that cannot be found: the child process reports the reason."""
        if self._notes is None:
            return ""
        try:
            function = function_of(kernel)
            digest = self._sources.whole_digest(str(function))
            guard = _guard(function.library) if function is not None and function.library else ()
            declared = self._closures.answers.answers(kernel.inputs)
            surroundings = (str(function), kernel.env, digest, str(self._target), declared, guard)
            return memo_key(kernel.op, *surroundings, self._reading())
        except (PrecastError, OSError):
            return ""

    def _reading(self) -> list[Any]:
        if not self._readers:
            versions = list(compiler_versions().values())
            adapters = sorted({point.value for point in entry_points(group=ADAPTERS)})
            self._readers = [versions, *(self._sources.whole_digest(name) for name in (*_READERS, *adapters))]
        return self._readers

    def _noted(self, key: str) -> Description | None:
        noted = self._notes.get("kernels", key) if self._notes else None
        try:
            return None if noted is None else Description.parse(noted)
        except FormatError:
            return None

    def _child(self, where: _Surroundings) -> Describer:
        if where not in self._children:
            # A variant's variables have facts of its target filled in, so that no description was made with them.
            alike = [reads for other, many in self._reads.items() if other.inputs == where.inputs for reads in many]
            closure = self._closures.of(self._reads.get(where, alike))
            child = describing(self._search, self._target, closure=closure, env=dict(where.env))
            self._children[where] = self._stack.enter_context(child)
        return self._children[where]


class _Surroundings(NamedTuple):
    """What the child process of a kernel has: variables, and the names of declared inputs."""

    env: Environment
    inputs: tuple[str, ...]


def _surroundings(variant: Variant) -> _Surroundings:
    return _Surroundings(environment_of(variant.env), variant.inputs)


def _to_json(description: Description) -> dict[str, Any]:
    return {
        **{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(description).items()},
        "keys": [key_to_json(key) for key in description.keys],
    }


def _guard(library: str) -> tuple[str, str]:
    guard: tuple[str, str] = satellite("precast.attach.builder.seam_digests").seam_guard(library)
    return guard
