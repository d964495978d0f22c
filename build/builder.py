"""The builder: the whole road of a build, from a plan to a cache on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from precast.build.assemble import assemble
from precast.build.cachedir import write_cache
from precast.build.compile import Compiled, Failed, Outcome
from precast.build.executor import Executor, Local
from precast.build.key import variant_key
from precast.build.link import Linker
from precast.build.pack import pack
from precast.build.plan import Plan, Variant
from precast.build.record import Record
from precast.build.runtime import link_runtime
from precast.build.store import Store
from precast.build.toolchain import Toolchain, find_toolchain
from precast.loader.errors import PrecastError

SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One step of a build, for whoever shows it: a variant that is done, or reused, or failed."""

    done: int
    total: int
    variant: Variant
    state: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a build did. ``failed`` variants are not in the cache; the others are."""

    built: tuple[Variant, ...]
    reused: tuple[Variant, ...]
    failed: tuple[Failed, ...]
    files: int
    size: int

    @property
    def complete(self) -> bool:
        return not self.failed


def default_jobs() -> int:
    """As many workers as this process may use processors."""
    return len(os.sched_getaffinity(0))


def build(
    plan: Plan,
    cache: Path,
    *,
    store: Store,
    jobs: int | None = None,
    seconds: float = SECONDS,
    executor: Executor | None = None,
    show: Callable[[Progress], None] = lambda step: None,
) -> Report:
    """Compile what the store lacks, and write the cache of everything that compiled.

    A variant that fails is reported and costs nothing else. Nothing is written where nothing compiled. ``executor``
    says where the compiling is done: in worker processes of this machine, as many as ``jobs``, unless it is given.
    """
    jobs = jobs or default_jobs()
    executor = executor or Local(jobs)
    toolchain = find_toolchain()
    keys = {v.identity: variant_key(v, toolchain, plan.search) for v in plan.variants}
    store.prepare((keys[v.identity], plan.profiles.of(v.target)) for v in plan.variants)
    records, reused, missing = _stored(plan, keys, store)
    built: list[Variant] = []
    failed: list[Failed] = []
    done = 0
    for variant in reused:
        show(Progress(done=(done := done + 1), total=len(plan.variants), variant=variant, state="reused"))
    runtime = link_runtime(toolchain)
    with Linker(toolchain, runtime) as linker:
        # Linking happens here while the workers compile what comes next.
        for outcome in executor.compile(plan, missing, seconds=seconds):
            result = _finish(outcome, keys, linker, toolchain, store)
            if isinstance(result, Failed):
                failed.append(result)
            else:
                records[outcome.variant.identity] = result
                built.append(outcome.variant)
            state = "failed" if isinstance(result, Failed) else "built"
            taken = outcome.seconds if isinstance(outcome, Compiled) else 0.0
            show(
                Progress(
                    done=(done := done + 1),
                    total=len(plan.variants),
                    variant=outcome.variant,
                    state=state,
                    seconds=taken,
                )
            )
    files: dict[str, bytes] = {}
    if not failed or records:
        lost = {f.variant.identity for f in failed}
        whole = _without(plan, lost)
        files = pack(whole, records, runtime, toolchain.versions, threads=jobs)
        write_cache(cache, files)
    store.finish()
    return Report(
        built=tuple(built),
        reused=tuple(reused),
        failed=tuple(failed),
        files=len(files),
        size=sum(map(len, files.values())),
    )


def _finish(
    outcome: Outcome, keys: dict[str, str], linker: Linker, toolchain: Toolchain, store: Store
) -> Record | Failed:
    if isinstance(outcome, Failed):
        return outcome
    try:
        record = assemble(outcome, keys[outcome.variant.identity], linker, toolchain)
    except PrecastError as error:
        return Failed(variant=outcome.variant, reason=str(error))
    store.put(keys[outcome.variant.identity], record)
    return record


def _stored(plan: Plan, keys: dict[str, str], store: Store) -> tuple[dict[str, Record], list[Variant], list[Variant]]:
    records: dict[str, Record] = {}
    reused: list[Variant] = []
    missing: list[Variant] = []
    for variant in plan.variants:
        record = store.get(keys[variant.identity], plan.profiles.of(variant.target))
        if record is None or not record.serves(variant.emit):
            missing.append(variant)
        else:
            records[variant.identity] = record
            reused.append(variant)
    return records, reused, missing


def _without(plan: Plan, lost: set[str]) -> Plan:
    return replace(plan, variants=tuple(v for v in plan.variants if v.identity not in lost)) if lost else plan
