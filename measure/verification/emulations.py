"""Emulations in a separate process: an artifact whose host code crashes, or that hangs, does not affect the others."""

from __future__ import annotations

import importlib.util
import math
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from precast.build.disk.scratch import temporary_folder
from precast.build.errors import ToolError
from precast.build.ipc.capacity import processors
from precast.build.ipc.child_process import ChildLost, ChildProcess
from precast.build.ipc.message import Message
from precast.build.link.toolchain import ffi_folder, program
from precast.build.rehearsal.recorder import SOURCE, recorder_library
from precast.build.store.store import Store
from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import Artifact
from precast.loader.errors import FormatError
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.evidence import EMULATION
from precast.measure.checks.check import Check
from precast.measure.checks.scenarios import Schedule
from precast.measure.launching.cases import LeftOut, Selected, declaration_for
from precast.measure.on_gpu.environment import launching_environment
from precast.measure.verification.evidence import date
from precast.measure.verification.kept_ptx import KeptPtx, NoPtx
from precast.measure.verification.verifier import NotEmulated

EMULATOR = 4  # raise it when the emulator finds more, or computes otherwise
DELAYS = (200, 0, 5000)  # turns; with one alone, a fault may stay hidden that another shows
MOST = 1 << 20  # elements of a problem
_BUDGET = 1 << 25  # warp instructions of a variant: a few seconds
_LIMIT = 1 << 28  # of one call
_CHECKS, _PRINTED = 100_000, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationOptions:
    """How variants are emulated: random schedules, and how many elements a problem may have."""

    schedules: Sequence[Schedule] = ()
    most: int = MOST


def schedules(count: int) -> tuple[Schedule, ...]:
    """So many random schedules, with several delays.

    >>> [str(schedule) for schedule in schedules(2)]
    ['schedule 1, delay 200', 'schedule 2, delay 0']
    """
    return tuple(Schedule(seed=number + 1, delay=DELAYS[number % len(DELAYS)]) for number in range(count))


def emulation_facts(options: EmulationOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """The emulator, its schedules and the date: the part that all evidence of one run has."""
    return {
        "check": EMULATION,
        "emulated": EMULATOR,
        "seeds": len(options.schedules),
        "most": options.most,
        "date": date(environment),
    }


def with_ptx(cache: Cache, store: Store, chosen: Sequence[Selected | LeftOut]) -> list[Selected | LeftOut]:
    """What can be emulated, with the reason for what cannot, since its PTX is nowhere; raises NoPtx if all is so."""
    kept = KeptPtx(cache, store)
    cases: list[Selected | LeftOut] = []
    missing: NoPtx | None = None
    for case in chosen:
        try:
            if isinstance(case, Selected):
                kept.require(case.op, case.artifact)
            cases.append(case)
        except NoPtx as error:
            missing = error
            cases.append(LeftOut(case.op, case.artifact, str(error)))
    if missing is not None and all(isinstance(case, LeftOut) for case in cases):
        raise missing
    return cases


class Texts(Protocol):
    """The PTX of artifacts."""

    def text(self, op: str, artifact: Artifact) -> str:
        """The PTX of an artifact of an op."""


class Emulations:
    """A process that emulates artifacts of a cache, started when it is needed. Use it in a ``with`` block.

    Parameters
    ----------
    cache, store
        The cache, and the store that may have its PTX.
    seconds
        How long the checks of one artifact may take.
    options
        How they are emulated.
    beside
        How many such processes there are at once.
    ptx
        Where the PTX of artifacts comes from, if not from these.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        seconds: float,
        options: EmulationOptions,
        *,
        beside: int = 1,
        ptx: Texts | None = None,
    ) -> None:
        self._cache, self._seconds, self._options = cache, seconds, options
        self._ptx: Texts = ptx or KeptPtx(cache, store)
        self._threads = max(1, processors() // beside)
        self._child: ChildProcess | None = None
        self._cleanup = ExitStack()

    def __enter__(self) -> Emulations:
        self._folder = self._cleanup.enter_context(temporary_folder())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._cleanup.close()

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
        """The checks of an artifact; raises NotEmulated if its PTX is refused."""
        how = self._options
        artifact = next((a for a in self._cache.op(op).artifacts if a.key == key), None)
        if artifact is None:
            return _lost(problem, f"{self._cache.path} was replaced while this ran: run it again")
        ranks = artifacts_of_ranks(self._cache.op(op).artifacts, artifact, declaration_for(op, artifact).rank_key)
        request = {
            "op": op,
            "key": key,
            "ptx": self._ptx.text(op, artifact),
            "ranks": [[each.key, self._ptx.text(op, each)] for each in ranks],
            "seed": seed,
            "problem": problem,
            "most": how.most if most is None else min(most, how.most),
            "budget": _BUDGET,
            "limit": _LIMIT,
            "schedules": [[schedule.seed, schedule.delay] for schedule in how.schedules],
        }
        try:
            child = self._child = self._child or self._start()
            child.send(Message(request))
            reply = child.receive(self._seconds).header
            if "refused" in reply:
                raise NotEmulated(str(reply["refused"]), str(reply["opcode"]))
            if "error" in reply:
                return _lost(problem, str(reply["error"]))
            return fields.items(reply, "checks", Check.parse, most=_CHECKS)
        except ChildLost as lost:
            self.end()
            printed = lost.output.strip()[-_PRINTED:]
            return _lost(problem, f"{lost}" + (f"; it last printed: {printed}" if printed else ""))
        except FormatError as error:
            self.end()
            return _lost(problem, f"the reply of the emulating process cannot be read: {error}")

    def end(self) -> None:
        """End the process. The next request starts another one."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _start(self) -> ChildProcess:
        compile_emulator()  # here, so that several processes do not do it at once
        sonames = {runtime.host.arch: runtime.soname for runtime in self._cache.index.runtimes}
        soname = sonames.get(platform.machine(), "recorder.so")
        recorder = self._folder / soname
        recorder.write_bytes(recorder_library(program("gcc"), SOURCE, soname))
        settings = {
            "cache": str(self._cache.path.absolute()),
            "folder": str(self._folder),
            "ffi": str(ffi_folder() / "libtvm_ffi.so"),
            "recorder": str(recorder),
            "threads": self._threads,
        }
        environment = {**launching_environment(os.environ), "CUDA_VISIBLE_DEVICES": "-1"}
        return ChildProcess(
            "precast.measure.child.emulation.emulator_main",
            name="emulating process",
            settings=settings,
            environment=environment,
        )


def compile_emulator() -> None:
    """Compile the emulator's interpreter if it is not there yet; a ToolError says what to install, torch included."""
    if importlib.util.find_spec("torch") is None:
        raise ToolError("torch is not installed, which makes the inputs: pip install 'precast[torch,emulate]'")
    try:
        from precast.emulator import EmulatorError, find_library
    except ImportError:
        raise ToolError("the emulator is not installed: pip install 'precast[emulate]'") from None
    try:
        find_library()
    except EmulatorError as error:
        raise ToolError(str(error)) from error


def artifacts_of_ranks(artifacts: Sequence[Artifact], artifact: Artifact, key: str) -> list[Artifact]:
    """The artifacts that differ from this only in their rank, which is its ``key``, in order; none without a key."""
    if not key:
        return []

    def others(each: Artifact) -> tuple[str, str, Mapping[str, Any]]:
        return str(each.target), each.kind, {n: v for n, v in each.config.items() if n != key}

    same = [each for each in artifacts if others(each) == others(artifact)]
    return sorted(same, key=lambda each: int(str(each.config[key])))


def _lost(problem: Mapping[str, int] | None, fault: str) -> tuple[Check, ...]:
    return (Check(problem=problem or {}, output="", error=math.inf, fault=fault),)
