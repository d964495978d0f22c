"""Workers of this process, and a plan's variants compiled by them, without a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from precast.build.compile.executor import Local
from precast.build.compile.outcome import Compiled
from precast.build.compile.worker import Worker
from precast.build.disk.memo import Memo
from precast.build.gpu.profile import Profiles
from precast.build.inputs.closure import Closures
from precast.build.plan.plan import Plan
from precast.build.plan.planner import plan_of_files
from precast.build.store.store import Store
from precast.loader.contract.format.target import Target
from tests.helpers.builds import kept_store


def kept_notes() -> Memo:
    """What is known of the installed distributions: to read torch and all that it requires takes half a minute."""
    return Store(kept_store()).notes


def planned(manifest: Path) -> Plan:
    """The plan of a manifest."""
    return plan_of_files([manifest], notes=kept_notes())


def worker_for(target: str, search: Sequence[Path]) -> Worker:
    """A worker for a target, which imports modules from these folders first."""
    parsed = Target.parse(target)
    return Worker(parsed, {}, search, Profiles().of(parsed), closures=Closures.here(search, kept_notes()))


def compile_plan(plan: Plan) -> Iterator[Compiled]:
    """Compile all variants, one after the other; one that does not compile is a failure of the test."""
    executor = Local(1, closures=Closures.here(plan.search, kept_notes()))
    for outcome in executor.compile(plan, plan.variants, seconds=600):
        assert isinstance(outcome, Compiled), outcome
        yield outcome
