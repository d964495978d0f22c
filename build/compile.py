"""Compiling: the variants of a plan go through worker processes, and each comes back as an outcome of its own."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from precast.build.message import Message
from precast.build.plan import Variant
from precast.build.process import Worker, WorkerLost
from precast.build.profile import Answer, Profiles, parse_answers
from precast.loader.config import thaw
from precast.loader.errors import FormatError
from precast.loader.plan import LaunchPlan
from precast.loader.signature import Signature
from precast.loader.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """One compiled object: the op it is filed under, its entry symbol, what it takes, and its bytes."""

    op: str
    symbol: str
    signature: Signature
    code: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A variant that compiled. ``assumed`` is what it asked of its GPU, and what it was told."""

    variant: Variant
    objects: tuple[Object, ...]
    seconds: float
    assumed: Mapping[str, Answer] = field(default_factory=dict)
    plan: LaunchPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A variant that did not: why, and what there is to read about it."""

    variant: Variant
    reason: str
    details: str = ""


Outcome = Compiled | Failed
_Group = tuple[Target, tuple[tuple[str, str], ...]]


def entry_names(variant: Variant) -> tuple[str, ...]:
    """The names of a variant's entry functions, one for each op it is filed under: stable, and free of the toolchain.

    The object defines each as ``__tvm_ffi_<name>``.
    """
    digest = hashlib.sha256(variant.identity.encode()).hexdigest()[:16]
    return tuple(f"{op.replace('.', '_')}_{digest}" for op in variant.produces)


def compile_variants(
    variants: Sequence[Variant], *, search: Sequence[Path], profiles: Profiles, jobs: int, seconds: float
) -> Iterator[Outcome]:
    """Compile all of them, several at a time, each given so many seconds; outcomes come as they are ready."""
    work = _Work(variants)
    outcomes: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()
    threads = [
        threading.Thread(target=_serve, args=(work, search, profiles, seconds, outcomes, stop), daemon=True)
        for _ in range(max(1, min(jobs, len(variants))))
    ]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            outcome = outcomes.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                running -= 1
            else:
                yield outcome
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class _Work:
    """What is left to compile, by the kind of worker it needs."""

    def __init__(self, variants: Sequence[Variant]) -> None:
        self._lock = threading.Lock()
        self._left: dict[_Group, deque[Variant]] = {}
        self._serving: dict[_Group, int] = {}
        for variant in variants:
            self._left.setdefault((variant.target, tuple(sorted(variant.env.items()))), deque()).append(variant)

    def next(self, group: _Group | None) -> tuple[_Group, Variant] | None:
        """The next variant: of the same group while there is one, else of the group with most left for each worker."""
        with self._lock:
            if group is None or not self._left[group]:
                open_groups = [g for g, left in self._left.items() if left]
                if not open_groups:
                    return None
                if group is not None:
                    self._serving[group] -= 1
                group = max(open_groups, key=lambda g: len(self._left[g]) / (1 + self._serving.get(g, 0)))
                self._serving[group] = self._serving.get(group, 0) + 1
            return group, self._left[group].popleft()


def _serve(
    work: _Work,
    search: Sequence[Path],
    profiles: Profiles,
    seconds: float,
    outcomes: queue.SimpleQueue[Outcome | BaseException | None],
    stop: threading.Event,
) -> None:
    worker: Worker | None = None
    group: _Group | None = None
    try:
        while not stop.is_set() and (taken := work.next(group)) is not None:
            if worker is not None and taken[0] != group:
                worker.close()
                worker = None
            group, variant = taken
            worker = worker or Worker(group[0], dict(group[1]), search, profiles.of(group[0]))
            try:
                outcomes.put(_ask(worker, variant, seconds))
            except WorkerLost as lost:
                worker.kill()
                worker = None
                outcomes.put(Failed(variant=variant, reason=str(lost), details=lost.output))
    except BaseException as error:
        outcomes.put(error)
    finally:
        if worker is not None:
            worker.kill() if stop.is_set() else worker.close()
        outcomes.put(None)


def _ask(worker: Worker, variant: Variant, seconds: float) -> Outcome:
    worker.forget_output()
    worker.send(Message(request_for(variant)))
    return outcome_of(variant, worker.receive(seconds), worker.output)


def request_for(variant: Variant) -> Mapping[str, object]:
    """What a worker is told about a variant."""
    config = {name: thaw(value) for name, value in variant.config.items()}
    return {"source": variant.source, "config": config, "symbols": list(entry_names(variant))}


def outcome_of(variant: Variant, reply: Message, output: str) -> Outcome:
    """What a worker's answer says of a variant. An answer is checked like any other bytes."""
    header = reply.header
    if "error" in header:
        details = "\n".join(part for part in (str(header.get("traceback", "")), output) if part.strip())
        return Failed(variant=variant, reason=str(header["error"]), details=details)
    names = entry_names(variant)
    try:
        signatures = [Signature.parse(s) for s in header["signatures"]]
        if not len(signatures) == len(reply.parts) == len(names):
            raise FormatError(f"{len(reply.parts)} objects for {len(names)} names")
        seconds = float(header["seconds"])
        assumed = parse_answers(header["assumed"])
        plan = None if header["plan"] is None else LaunchPlan.parse(header["plan"])
    except (FormatError, KeyError, TypeError, ValueError) as error:
        return Failed(variant=variant, reason=f"the worker's answer is not what it should be: {error}", details=output)
    objects = tuple(
        Object(op=op, symbol=f"__tvm_ffi_{name}", signature=signature, code=code)
        for op, name, signature, code in zip(variant.produces, names, signatures, reply.parts, strict=True)
    )
    return Compiled(variant=variant, objects=objects, seconds=seconds, assumed=assumed, plan=plan)
