"""The describer: a child process that says what kernels declare, and what their ``supports`` refuses.

Planning never imports a kernel's module in its own process: that would start the DSL, or run an author's code, where
everything else runs. A module may print, hang or crash without harm to the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precast.build.errors import DescribeError
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.environment import child_environment
from precast.build.ipc.message import Message
from precast.build.plan.manifest import KernelRef
from precast.loader.errors import FormatError
from precast.loader.format import fields
from precast.loader.format.config import Key, to_json
from precast.loader.format.index import parse_key
from precast.loader.format.patterns import OP_NAME
from precast.loader.format.target import Target, TargetPattern

if TYPE_CHECKING:
    from precast.build.plan.plan import Variant

TIME_LIMIT = 300.0
_NAME = "process that imports the kernels' modules"
_PRINTED = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is known of a kernel without compiling it.

    ``declared`` is False for a plain function: its manifest says which keys are tuned. ``has_supports`` is True for a
    kernel whose ``supports`` must be asked about each variant.
    """

    op: str
    source: str
    keys: tuple[Key, ...]
    targets: tuple[str, ...] = ()
    doc: str = ""
    declared: bool = False
    has_supports: bool = False

    @classmethod
    def parse(cls, value: object) -> Description:
        """Read what the child says."""
        data = fields.as_object(value)
        return cls(
            op=fields.matching(data, "op", OP_NAME, "a name of an op"),
            source=fields.get(data, "source", str),
            keys=fields.items(data, "keys", parse_key, most=256),
            targets=fields.items(data, "targets", lambda v: str(TargetPattern.parse(fields.text(v))), most=256),
            doc=fields.get(data, "doc", str),
            declared=fields.get(data, "declared", bool),
            has_supports=fields.get(data, "has_supports", bool),
        )


@dataclass(frozen=True, slots=True)
class NotDescribed:
    """Why a kernel could not be described, ending in what to do."""

    reason: str


Described = Mapping[KernelRef, Description | NotDescribed]


class Describer:
    """The child process, ready to answer. Use ``describing`` to have one that always ends."""

    def __init__(self, child: ChildProcess, limit: float) -> None:
        self._child, self._limit = child, limit

    def describe(self, kernels: Sequence[KernelRef]) -> dict[KernelRef, Description | NotDescribed]:
        """What each kernel declares. A module that cannot be imported affects its own kernels alone."""
        wanted = list(dict.fromkeys(kernels))
        rows = self._request("describe", [{"op": one.op, "source": one.source} for one in wanted])
        return dict(zip(wanted, map(_description, rows), strict=True))

    def refusals(self, variants: Sequence[Variant]) -> tuple[str | None, ...]:
        """For each variant, why its kernel's ``supports`` refuses it, or None."""
        rows = [
            {
                "op": v.op,
                "source": v.source,
                "config": {name: to_json(value) for name, value in v.config.items()},
                "target": str(v.target),
            }
            for v in variants
        ]
        return tuple(_reason(row) for row in self._request("check", rows))

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
                f"{lost}{printed}; import them with Python to see why, one 'compile:' at a time"
            ) from None
        if "error" in reply:
            raise DescribeError(f"describing the kernels failed: {reply['error']}\n{reply.get('traceback', '')}")
        answers = reply.get("rows")
        if not isinstance(answers, list) or len(answers) != len(rows):
            raise DescribeError(f"the {_NAME} did not send {len(rows)} answers: report this")
        return answers


@contextmanager
def describing(
    search: Iterable[Path], target: Target, *, env: Mapping[str, str] | None = None, limit: float = TIME_LIMIT
) -> Iterator[Describer]:
    """A child process that imports from ``search`` as if it compiled for ``target`` under ``env``.

    ``limit`` is how many seconds one answer may take. The process ends with the block.
    """
    with ChildProcess(
        "describer_main",
        name=_NAME,
        settings={"target": str(target), "search": [str(folder) for folder in search]},
        environment=child_environment(os.environ, target=target, env=env),
    ) as child:
        yield Describer(child, limit)


def _description(row: object) -> Description | NotDescribed:
    try:
        data = fields.as_object(row)
        return NotDescribed(fields.get(data, "error", str)) if "error" in data else Description.parse(data)
    except FormatError as error:
        return NotDescribed(f"its declaration cannot be read ({error}): correct it")


def _reason(row: object) -> str | None:
    if row is None or isinstance(row, str):
        return row
    raise DescribeError(f"the {_NAME} gave a reason that is not text: report this")
