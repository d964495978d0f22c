"""The builder: every stage of a build, from a plan to a cache on disk."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from precast.build.assemble import assemble
from precast.build.cache.blob_reuse import BlobReuse
from precast.build.cache.cache_folder import check_output, write_cache
from precast.build.cache.pack import pack
from precast.build.cache.up_to_date import inputs_digest, is_up_to_date, mark_up_to_date
from precast.build.compile.executor import Executor, Local
from precast.build.compile.outcome import Failed, Outcome
from precast.build.inputs.sources import SourceDigests
from precast.build.ipc.capacity import default_jobs
from precast.build.link.linker import Linker
from precast.build.link.runtime import RuntimeLibrary, link_runtime
from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.report import Built, Report, State, Step
from precast.build.store.costs import Costs
from precast.build.store.key import variant_key
from precast.build.store.record import Record
from precast.build.store.store import Store
from precast.loader.errors import PrecastError

SECONDS = 600.0
_LINKERS = 4
_BACKLOG = 64  # compiled variants that may wait for a linker before the next outcome is taken

Show = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to build. ``jobs`` and ``memory`` (bytes of one worker) are chosen for this machine where not given.

    ``executor`` says where to compile: in worker processes of this machine, unless it is given.
    """

    jobs: int | None = None
    seconds: float = SECONDS
    memory: int | None = None
    fail_fast: bool = False
    executor: Executor | None = None


def build(plan: Plan, cache: Path, *, store: Store, options: Options | None = None, show: Show | None = None) -> Report:
    """Compile what the store lacks, and write the cache of everything that compiled.

    A place that cannot hold the cache is refused first. A variant that fails is reported and left out, unless
    ``fail_fast`` is set: then the first failure ends the build and the old cache stays. Nothing is written where
    nothing compiled.
    """
    check_output(cache)
    options = options or Options()
    show = show or (lambda step: None)
    toolchain = find_toolchain()
    sources = SourceDigests(plan.search, store.notes)
    keys = {v.identity: variant_key(v, toolchain, sources.digest(v.source)) for v in plan.variants}
    inputs = inputs_digest(plan, keys, toolchain, sources)
    profiles = {target: plan.profiles.of(target) for target in {v.target for v in plan.variants}}
    wanted = [(keys[v.identity], profiles[v.target]) for v in plan.variants]
    if is_up_to_date(store.notes, inputs, cache):
        store.mark_used(wanted)
        store.share(wanted)
        store.finish()
        files = [p.stat().st_size for p in cache.rglob("*") if p.is_file()]
        return Report(built=(), reused=plan.variants, failed=(), files=len(files), size=sum(files))
    store.prepare(wanted)
    run = _Run(plan, keys, store, sources, toolchain, options, show)
    report = run.go()
    if report.failed and (options.fail_fast or not run.records):
        store.finish()
        return report
    whole = _without(plan, {f.variant.identity for f in report.failed})
    assert run.runtime is not None
    packed = pack(
        whole, run.records, run.runtime, toolchain.versions,
        threads=default_jobs(), reuse=BlobReuse(cache, store.notes),
    )  # fmt: skip
    write_cache(cache, packed)
    store.share(wanted)
    store.finish()
    if report.complete:
        mark_up_to_date(store.notes, inputs, packed)
    return replace(report, files=len(packed), size=sum(map(len, packed.values())))


@dataclass(slots=True)
class _Run:
    """The long part of a build: what is missing is compiled, linked and stored."""

    plan: Plan
    keys: Mapping[str, str]
    store: Store
    sources: SourceDigests
    toolchain: Toolchain
    options: Options
    show: Show
    records: dict[str, Record] = field(default_factory=dict)
    runtime: RuntimeLibrary | None = None
    done: int = 0

    def go(self) -> Report:
        """Fill ``records`` from the store and by compiling, and report."""
        reused, missing = self._stored()
        built: list[Built] = []
        failed: list[Failed] = []
        self.runtime = link_runtime(self.toolchain)
        costs = Costs(self.store.notes)
        try:
            with closing(self._results(missing, costs)) as results:
                for variant, result in results:
                    if isinstance(result, Failed):
                        failed.append(result)
                        self._step(variant, "failed", reason=result.reason)
                        if self.options.fail_fast:
                            break
                    else:
                        built.append(Built.of(variant, result))
                        costs.add(variant, result.seconds)
                        self.records[variant.identity] = _needed_bytes(variant, result)
                        self._step(variant, "built", seconds=result.seconds)
        finally:
            costs.save()
        return Report(
            built=tuple(b.variant for b in built),
            reused=tuple(reused),
            failed=tuple(failed),
            files=0,
            size=0,
            facts=tuple(built),
        )

    def _stored(self) -> tuple[list[Variant], list[Variant]]:
        reused: list[Variant] = []
        missing: list[Variant] = []
        for variant in self.plan.variants:
            record = self.store.get(self.keys[variant.identity], self.plan.profiles.of(variant.target))
            if record is None or not record.serves(variant.emit):
                missing.append(variant)
            else:
                self.records[variant.identity] = _needed_bytes(variant, record)
                reused.append(variant)
                self._step(variant, "reused")
        return reused, missing

    def _results(self, missing: list[Variant], costs: Costs) -> Generator[tuple[Variant, Record | Failed], None, None]:
        """Records in the order in which they are ready. Threads link while the workers compile the next variants."""
        if not missing:
            return
        assert self.runtime is not None
        self.store.sweep()
        linkers = ThreadPoolExecutor(_LINKERS, thread_name_prefix="link")
        waiting: dict[Future[Record | Failed], Variant] = {}
        with (
            Linker(self.toolchain, self.runtime) as linker,
            linkers,
            _closing_early(self._outcomes(missing, costs)) as outcomes,
        ):
            for outcome in outcomes:
                waiting[linkers.submit(self._finish, outcome, linker)] = outcome.variant
                yield from _completed(waiting, most=_BACKLOG)
            yield from _completed(waiting, most=0)

    def _outcomes(self, missing: list[Variant], costs: Costs) -> Iterator[Outcome]:
        options = self.options
        executor = options.executor or Local(
            options.jobs, options.memory, costs.of(missing), lambda variant: self._step(variant, "started")
        )
        return executor.compile(self.plan, missing, seconds=options.seconds)

    def _finish(self, outcome: Outcome, linker: Linker) -> Record | Failed:
        if isinstance(outcome, Failed):
            return outcome
        variant = outcome.variant
        try:
            record = assemble(outcome, self.keys[variant.identity], linker, self.toolchain)
        except PrecastError as error:
            return Failed(variant=variant, reason=str(error))
        if (file := self.sources.changed(variant.source)) is not None:
            return Failed(variant=variant, reason=f"{file.name} has changed since the build began: build again")
        self.store.put(self.keys[variant.identity], record)
        return record

    def _step(self, variant: Variant, state: State, *, seconds: float = 0.0, reason: str = "") -> None:
        self.done += state != "started"
        total = len(self.plan.variants)
        self.show(Step(done=self.done, total=total, variant=variant, state=state, seconds=seconds, reason=reason))


@contextmanager
def _closing_early(outcomes: Iterator[Outcome]) -> Iterator[Iterator[Outcome]]:
    """Make an executor stop its work also when not all of its outcomes are taken."""
    try:
        yield outcomes
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()


def _completed(
    waiting: dict[Future[Record | Failed], Variant], *, most: int
) -> Iterator[tuple[Variant, Record | Failed]]:
    """The results that are ready; waits for more until at most so many are left in ``waiting``."""
    while True:
        for future in [f for f in waiting if f.done()]:
            yield waiting.pop(future), future.result()
        if len(waiting) <= most:
            return
        wait(waiting, return_when=FIRST_COMPLETED)


def _needed_bytes(variant: Variant, record: Record) -> Record:
    """A record with only the bytes that artifacts of this variant need: a plan may have thousands of records."""
    kept = ("cubin" in variant.emit, "object" in variant.emit)
    products = (
        replace(p, obj=b"", cubins=p.cubins if kept[0] else (), library=p.library if kept[1] else b"")
        for p in record.products
    )
    return replace(record, products=tuple(products))


def _without(plan: Plan, lost: set[str]) -> Plan:
    return replace(plan, variants=tuple(v for v in plan.variants if v.identity not in lost)) if lost else plan
