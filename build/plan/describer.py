"""The describer: a child process that reads the declarations of kernels, and calls their ``supports``.

Planning never imports a kernel's module in its own process: that would start the DSL, or run an author's code. A module
may print, hang or crash without harm to the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precast.build.errors import DescribeError
from precast.build.inputs.closure import Closure
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.plan.entry import KernelRef
from precast.build.plan.variant import Variant
from precast.kernels.authoring.registry import FunctionRef, find
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import Key, to_json
from precast.loader.contract.format.index import parse_key
from precast.loader.contract.format.patterns import NAME, OP_NAME, PART
from precast.loader.contract.format.target import Target, TargetPattern
from precast.loader.errors import FormatError, PrecastError

TIME_LIMIT = 300.0
_NAME = "process that imports the kernels' modules"
_PRINTED = 2000


class Describer:
    """The child process, started. ``describing`` makes one that always ends."""

    def __init__(self, child: ChildProcess, limit: float) -> None:
        self._child, self._limit = child, limit

    def describe(self, kernels: Sequence[KernelRef]) -> dict[KernelRef, Description | NotDescribed]:
        """The declaration of each kernel. A module that cannot be imported affects only its own kernels."""
        unique = list(dict.fromkeys(kernels))
        functions = {kernel: function_of(kernel) for kernel in unique}
        named = {kernel: None if function is None else str(function) for kernel, function in functions.items()}
        rows = self._request("describe", [{"op": kernel.op, "source": named[kernel]} for kernel in unique])
        return dict(zip(unique, map(_description, rows), strict=True))

    def refusals(self, variants: Sequence[Variant]) -> tuple[str | None, ...]:
        """For each variant, the reason why its kernel's ``supports`` refuses it, or None."""
        return tuple(_reason(row) for row in self._request("check", [_row(v) for v in variants]))

    def size_names(self, variants: Sequence[Variant]) -> tuple[frozenset[str], ...]:
        """For each variant, the names of the sizes in its kernel's problems; none if it declares no problems."""
        return tuple(_names(row) for row in self._request("sizes", [_row(v) for v in variants]))

    def _request(self, kind: str, rows: list[dict[str, Any]]) -> list[Any]:
        """Send all rows as one message, and receive as many answers."""
        if not rows:
            return []
        try:
            self._child.send(Message({kind: rows}))
            reply = self._child.receive(self._limit).header
        except ChildLost as lost:
            printed = f"; it last printed:\n{lost.output.strip()[-_PRINTED:]}\n" if lost.output.strip() else ""
            raise DescribeError(
                f"{lost}{printed}; import the modules in Python, one 'compile:' at a time, to find the cause"
            ) from None
        if "error" in reply:
            raise DescribeError(f"describing the kernels failed: {reply['error']}\n{reply.get('traceback', '')}")
        answers = reply.get("rows")
        if not isinstance(answers, list) or len(answers) != len(rows):
            raise DescribeError(f"the {_NAME} did not send {len(rows)} results: report this")
        return answers


@contextmanager
def describing(
    search: Iterable[Path],
    target: Target,
    *,
    closure: Closure,
    env: Mapping[str, str] | None = None,
    limit: float = TIME_LIMIT,
) -> Iterator[Describer]:
    """A child process that imports from ``search`` as if it compiled for ``target`` under ``env``, and can read only
    what ``closure`` has.

    ``limit`` is the number of seconds that one request may take. The process ends with the block.
    """
    with ChildProcess(
        "precast.build.child.describer_main",
        name=_NAME,
        settings={
            "target": str(target),
            "search": [str(folder) for folder in search],
            "closure": closure.to_json(),
        },
        environment=child_environment(os.environ, target=target, env=env),
    ) as child:
        yield Describer(child, limit)


def function_of(kernel: KernelRef) -> FunctionRef | None:
    """The function of a kernel, where it is found: the child process itself sees only some distributions, and reports
    what is wrong with the others.

    >>> str(function_of(KernelRef(op="rmsnorm")))
    'precast.kernels.own.norms.rmsnorm:rmsnorm'
    """
    try:
        return FunctionRef.parse(kernel.source) if kernel.source else find(kernel.op or "")
    except PrecastError:
        return None


def _description(row: object) -> Description | NotDescribed:
    try:
        data = fields.as_object(row)
        return NotDescribed(fields.get(data, "error", str)) if "error" in data else Description.parse(data)
    except FormatError as error:
        return NotDescribed(f"its declaration cannot be read ({error}): correct it")


def _row(variant: Variant) -> dict[str, Any]:
    return {
        "op": variant.op,
        "source": variant.source,
        "config": {name: to_json(value) for name, value in variant.config.items()},
        "target": str(variant.target),
    }


def _names(row: object) -> frozenset[str]:
    if isinstance(row, str):
        raise DescribeError(row)
    if not isinstance(row, list) or not all(isinstance(name, str) and NAME.admits(name) for name in row):
        raise DescribeError(f"the {_NAME} sent invalid names of sizes: report this")
    return frozenset(row)


def _reason(row: object) -> str | None:
    if row is None or isinstance(row, str):
        return row
    raise DescribeError(f"the {_NAME} sent a reason that is not text: report this")


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The declaration of a kernel.

    ``declared`` is False for a plain function: its manifest then names the tuned keys. ``has_supports`` is True for a
    kernel whose ``supports`` must be called for each variant. ``parts`` names the objects of a kernel with several.
    ``speed_only`` names the facts of the GPU that only affect its speed, ``imports`` the modules that it imports when
    it compiles.
    """

    op: str
    source: str
    keys: tuple[Key, ...]
    targets: tuple[str, ...] = ()
    doc: str = ""
    declared: bool = False
    has_supports: bool = False
    parts: tuple[str, ...] = ()
    speed_only: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Description:
        """Read what the child process sent."""
        data = fields.as_object(value)
        return cls(
            op=fields.matching(data, "op", OP_NAME, "a name of an op"),
            source=fields.get(data, "source", str),
            keys=fields.items(data, "keys", parse_key, most=256),
            targets=fields.items(data, "targets", lambda v: str(TargetPattern.parse(fields.text(v))), most=256),
            doc=fields.get(data, "doc", str),
            declared=fields.get(data, "declared", bool),
            has_supports=fields.get(data, "has_supports", bool),
            parts=fields.items(data, "parts", lambda v: _part(fields.text(v)), most=64),
            speed_only=fields.items(data, "speed_only", lambda v: _fact(fields.text(v)), most=64, default=()),
            imports=fields.items(data, "imports", lambda v: _module(fields.text(v)), most=64, default=()),
        )


def _part(text: str) -> str:
    if not PART.admits(text):
        raise FormatError(f"{text[:80]!r} is not the name of a part")
    return text


def _module(text: str) -> str:
    if len(text) > 256 or not all(part.isidentifier() for part in text.split(".")):
        raise FormatError(f"{text[:80]!r} is not the name of a module")
    return text


def _fact(text: str) -> str:
    if not NAME.admits(text):
        raise FormatError(f"{text[:80]!r} is not the name of a fact")
    return text


@dataclass(frozen=True, slots=True)
class NotDescribed:
    """The reason why a kernel could not be described, which ends in what to do."""

    reason: str


Described = Mapping[KernelRef, Description | NotDescribed]
