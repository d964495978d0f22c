"""Launches in a process of their own: an artifact that faults, hangs or refuses costs itself alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.message import Message
from precast.loader.errors import FormatError
from precast.loader.format import fields

_MOST = 100_000
_PRINTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One problem of an artifact: the microseconds that a launch took, or why there are none."""

    problem: Mapping[str, int]
    microseconds: float = 0.0
    text: str = ""
    refused: str = ""
    healthy: bool = True

    def __str__(self) -> str:
        """For people.

        >>> str(Launched(problem={"m": 3}, refused="m must be a multiple of 8"))
        'left out at m=3: m must be a multiple of 8'
        """
        sizes = ", ".join(f"{name}={value}" for name, value in self.problem.items())
        return f"left out{' at ' if sizes else ''}{sizes}: {self.refused}" if self.refused else self.text

    @classmethod
    def parse(cls, value: object) -> Launched:
        """Read what the process says."""
        data = fields.as_object(value)
        sizes = fields.parsed(data, "problem", fields.as_object)
        return cls(
            problem={name: fields.count(sizes, name, most=2**63 - 1) for name in sizes},
            microseconds=fields.get(data, "microseconds", float, 0.0),
            text=fields.get(data, "text", str, ""),
            refused=fields.get(data, "refused", str, ""),
            healthy=fields.get(data, "healthy", bool, True),
        )


class Launches:
    """Times artifacts of a cache, one after the other, in a process that is started again after it was lost.

    ``seconds`` is what one artifact may take. Use it in a ``with`` block.
    """

    def __init__(self, cache: Path, seconds: float) -> None:
        self._cache, self._seconds = cache, seconds
        self._child: ChildProcess | None = None

    def __enter__(self) -> Launches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.close() if error is None else self._child.kill()

    def timed(self, op: str, key: str, problems: list[dict[str, int]] | None) -> tuple[Launched, ...]:
        """The times of an artifact on each problem; one without a problem says why there is none at all."""
        try:
            child = self._child = self._child or self._start()
            child.send(Message({"op": op, "key": key, "problems": problems}))
            reply = child.receive(self._seconds)
            if (reason := reply.header.get("left_out") or reply.header.get("error")) is not None:
                return (Launched(problem={}, refused=str(reason)),)
            found = fields.items(reply.header, "timings", Launched.parse, most=_MOST)
        except ChildLost as lost:
            self._end()
            printed = lost.output.strip()[-_PRINTED:]
            return (Launched(problem={}, refused=f"{lost}" + (f"; it last printed: {printed}" if printed else "")),)
        except FormatError as error:
            self._end()
            return (Launched(problem={}, refused=f"the launching process' answer cannot be read: {error}"),)
        if not all(one.healthy for one in found):
            self._end()  # the GPU does not work any more in it
        return found

    def _start(self) -> ChildProcess:
        settings = {"cache": str(self._cache.absolute())}
        return ChildProcess(
            "on_gpu.launch_main", name="launching process", settings=settings, environment=dict(os.environ)
        )

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None
