"""Launches in a separate process: an artifact that faults, hangs or refuses does not affect the others."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.message import Message
from precast.loader.contract.format import fields
from precast.loader.errors import FormatError, PrecastError
from precast.measure.checks.check import Check
from precast.measure.on_gpu.environment import launching_environment
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings
from precast.measure.timing.timer import LAUNCHES

T = TypeVar("T")

_MOST = 100_000
_PRINTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One problem of an artifact: the times of a launch, or the reason why there are none."""

    problem: Mapping[str, int]
    timing: Timing | None = None
    refused: str = ""
    healthy: bool = True

    @property
    def microseconds(self) -> float:
        """The median time of a launch; 0 where there is none."""
        return self.timing.microseconds if self.timing else 0.0

    def __str__(self) -> str:
        """The result as text.

        >>> str(Launched(problem={"m": 3}, refused="m must be a multiple of 8"))
        'left out at m=3: m must be a multiple of 8'
        """
        sizes = ", ".join(f"{name}={value}" for name, value in self.problem.items())
        return f"left out{' at ' if sizes else ''}{sizes}: {self.refused}" if self.refused else str(self.timing)

    @classmethod
    def parse(cls, value: object) -> Launched:
        """Read the reply of the process."""
        data = fields.as_object(value)
        sizes = fields.parsed(data, "problem", fields.as_object)
        launched = cls(
            problem={name: fields.count(sizes, name, most=2**63 - 1) for name in sizes},
            timing=fields.parsed(data, "timing", Timing.parse, None),
            refused=fields.get(data, "refused", str, ""),
            healthy=fields.get(data, "healthy", bool, True),
        )
        if bool(launched.refused) == bool(launched.timing):
            raise FormatError("expected either a timing or a reason")
        return launched


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One of several candidates on one problem: the microseconds of a launch, or the reason why there are none."""

    microseconds: float = 0.0
    refused: str = ""
    healthy: bool = True

    @classmethod
    def parse(cls, value: object) -> Trial:
        """Read the reply of the process.

        >>> Trial.parse({"microseconds": 2.5}).microseconds
        2.5
        """
        data = fields.as_object(value)
        return cls(
            microseconds=fields.get(data, "microseconds", float, 0.0),
            refused=fields.get(data, "refused", str, ""),
            healthy=fields.get(data, "healthy", bool, True),
        )


class Lost(PrecastError):
    """The launching process gave no result for an artifact; the message has the reason."""

    code = "PCB16"


class Launches:
    """Times and verifies artifacts of a cache in a process, which is restarted after it is lost.

    ``seconds`` is the time limit for one artifact. Use it in a ``with`` block.
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

    def timed(
        self,
        op: str,
        key: str,
        problems: list[dict[str, int]] | None,
        *,
        launches: int = LAUNCHES,
        extras: Sequence[str] = (),
    ) -> tuple[Launched, ...]:
        """The times of an artifact on each problem; one result without a problem has the reason if there are none.

        ``extras`` are some of ``precast.measure.timing.bench.EXTRAS``.
        """
        options = {"problems": problems, "launches": launches, "extras": list(extras)}
        try:
            results = self._request({"op": op, "key": key, **options}, _timings)
        except Lost as error:
            return (Launched(problem={}, refused=str(error)),)
        if not all(result.healthy for result in results):
            self.end()  # the GPU does not work any more in this process
        return results

    def trial(
        self,
        op: str,
        key: str,
        *,
        group: str,
        problem: Mapping[str, int],
        launches: int,
        check: bool,
        enough: float = 0.0,
    ) -> Trial:
        """The time of one of several candidates on one problem, on the same inputs as the others of its ``group``.

        If its first launch takes more than ``enough`` microseconds, it is not launched again; 0 means no limit. Raises
        Lost if the candidate ended the process, or hung.
        """
        request = {"op": op, "key": key, "group": group, "launches": launches, "check": check, "enough": enough}
        result = self._request({**request, "problem": dict(problem)}, Trial.parse)
        if not result.healthy:
            self.end()
        return result

    def clocks(self) -> dict[str, int]:
        """The clocks of the GPU in MHz under the load of the last trial; none if they are not known."""
        try:
            return self._request({"clocks": True}, _clocks)
        except Lost:
            return {}

    def ceilings(self, dtypes: Sequence[str]) -> Ceilings:
        """The peak rates of the GPU, for some dtypes; raises Lost if they could not be measured."""
        return self._request({"ceilings": list(dtypes)}, lambda reply: fields.parsed(reply, "ceilings", Ceilings.parse))

    def checks(
        self,
        op: str,
        key: str,
        *,
        seed: int,
        problem: Mapping[str, int] | None,
        most: int | None,
        huge: bool | None = None,
    ) -> tuple[Check, ...]:
        """The checks of an artifact. If it ended its process, or hung, that is a fault like others."""
        request = {"op": op, "key": key, "seed": seed, "problem": problem, "most": most, "huge": huge}
        try:
            results, healthy = self._request(request, _checks)
        except Lost as error:
            return (Check(problem=problem or {}, output="", error=math.inf, fault=str(error)),)
        if not healthy:
            self.end()
        return results

    def _request(self, request: Mapping[str, object], read: Callable[[Mapping[str, object]], T]) -> T:
        """The parsed reply to a request; raises Lost if there is none."""
        try:
            child = self._child = self._child or self._start()
            child.send(Message(request))
            reply = child.receive(self._seconds).header
            if (reason := reply.get("left_out") or reply.get("error")) is not None:
                raise Lost(str(reason))
            return read(reply)
        except ChildLost as lost:
            self.end()
            printed = lost.output.strip()[-_PRINTED:]
            raise Lost(f"{lost}" + (f"; it last printed: {printed}" if printed else "")) from None
        except FormatError as error:
            self.end()
            raise Lost(f"the reply of the launching process cannot be read: {error}") from None

    def _start(self) -> ChildProcess:
        settings = {"cache": str(self._cache.absolute())}
        environment = launching_environment(os.environ)
        return ChildProcess(
            "precast.measure.child.on_gpu.launch_main",
            name="launching process",
            settings=settings,
            environment=environment,
        )

    def end(self) -> None:
        """End the process, which frees its memory. The next request starts another one."""
        if self._child is not None:
            self._child.kill()
            self._child = None


def _timings(reply: Mapping[str, object]) -> tuple[Launched, ...]:
    return fields.items(reply, "timings", Launched.parse, most=_MOST)


def _clocks(reply: Mapping[str, object]) -> dict[str, int]:
    return {name: fields.count(reply, name, most=1_000_000) for name in ("sm_mhz", "memory_mhz") if name in reply}


def _checks(reply: Mapping[str, object]) -> tuple[tuple[Check, ...], bool]:
    return fields.items(reply, "checks", Check.parse, most=_MOST), fields.get(reply, "healthy", bool)
