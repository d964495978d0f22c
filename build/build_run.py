"""The long part of a build: what the store lacks is compiled, linked and stored."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

from precast.build.compile.assemble import assemble
from precast.build.compile.executor import Executor, Local
from precast.build.compile.outcome import Failed, Outcome, entry_names, sampled
from precast.build.disk.scratch import TemporaryLost, sweep_temporary
from precast.build.errors import ChangedInputError
from precast.build.gpu.profile import Profile
from precast.build.inputs.closure import Closures
from precast.build.inputs.sources import SourceDigests
from precast.build.link.linker import Linker
from precast.build.link.runtime import RuntimeLibrary, link_runtime
from precast.build.link.toolchain import Toolchain
from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.report import Built, Report, State, Step
from precast.build.store.costs import Costs
from precast.build.store.history import note_built, note_parts
from precast.build.store.keeper import Keeper, Kept
from precast.build.store.key import key_parts, record_key
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record
from precast.loader.errors import PrecastError

_LINKERS = 4
_TRIES = 5
_BACKLOG = 64  # compiled variants that may wait for a linker before the next outcome is taken

Show = Callable[[Step], None]
_Result = tuple[Variant, Record | Failed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to build. ``jobs`` and ``memory`` (bytes of one worker) are chosen for this machine if they are None.

    ``executor`` decides where to compile: by default in worker processes on this machine. ``dictionary`` compresses the
    blobs, in place of one that is trained on them. With ``keep_ptx`` the cache has the PTX of its kernels. With
    ``twice`` each variant is compiled twice, else a few of them.
    """

    jobs: int | None = None
    seconds: float = 600.0
    memory: int | None = None
    fail_fast: bool = False
    executor: Executor | None = None
    dictionary: bytes | None = None
    keep_ptx: bool = False
    twice: bool = False


@dataclass(slots=True)
class BuildRun:
    """The long part of a build: compiles, links and stores the missing variants."""

    plan: Plan
    keys: Mapping[str, str]
    lookup: Lookup
    closures: Closures
    toolchain: Toolchain
    options: Options
    show: Show
    records: dict[str, Record] = field(default_factory=dict)
    runtime: RuntimeLibrary | None = None
    done: int = 0
    advice: dict[str, Variant] = field(default_factory=dict)
    _by_key: dict[str, list[str]] = field(default_factory=dict)  # identities on GPUs by the key that they share

    def __post_init__(self) -> None:
        for name, key in self.keys.items():
            self._by_key.setdefault(key, []).append(name)

    @property
    def sources(self) -> SourceDigests:
        return self.closures.sources

    def go(self) -> Report:
        """Fill ``records`` from the store and by compiling, and report."""
        reused, missing = self._stored()
        built: list[Built] = []
        failed: list[Failed] = []
        self.runtime = link_runtime(self.toolchain)
        costs = Costs(self.lookup.store.notes)
        try:
            while missing and not (failed and self.options.fail_fast):
                batch, missing = self._for_different_gpus(missing)
                self._compile(batch, costs, built, failed)
                same, missing = self._shared(missing)
                reused += same
        finally:
            costs.save()
        return Report(
            built=tuple(b.variant for b in built),
            reused=tuple(reused),
            failed=tuple(failed),
            files=0,
            size=0,
            facts=tuple(built),
            advice=tuple((variant, text) for text, variant in sorted(self.advice.items())),
        )

    def _compile(self, batch: list[Variant], costs: Costs, built: list[Built], failed: list[Failed]) -> None:
        """Compile, link and store these variants; ``fail_fast`` stops at the first that fails."""
        with closing(self._results(batch, costs)) as results, closing(self._kept(results)) as kept:
            for variant, result in kept:
                if isinstance(result, Failed):
                    failed.append(result)
                    self._step(variant, "failed", failed=result)
                    if self.options.fail_fast:
                        return
                else:
                    built.append(Built.of(variant, result))
                    costs.add(variant, result.seconds)
                    parts = key_parts(variant, self.toolchain, self.sources.digest(variant.source))
                    note_built(self.lookup.store.notes, variant, parts, result.key)
                    note_parts(self.lookup.store.notes, result, parts)
                    needed = result.with_bytes_for(variant.emit, ptx=self.options.keep_ptx)
                    self.records[variant.identity_on_gpu] = needed
                    self._step(variant, "built", seconds=result.seconds)

    def _for_different_gpus(self, missing: list[Variant]) -> tuple[list[Variant], list[Variant]]:
        """The variants to compile now, and those that may not need to be compiled.

        Which facts of its GPU a kernel requests is known only once it has compiled. So of the same variant for several
        GPUs one is compiled first; the next round compiles one for each further set of values of those facts.
        """
        now: list[Variant] = []
        later: list[Variant] = []
        begun: set[str] = set()
        for variant in missing:
            key = self.keys[variant.identity_on_gpu]
            requested = {name for record in self._records_of(key) for name in record.assumed}
            expected = record_key(key, self._profile(variant).answers(requested))
            (later if expected in begun else now).append(variant)
            begun.add(expected)
        return now, later

    def _shared(self, missing: list[Variant]) -> tuple[list[Variant], list[Variant]]:
        """The variants for which the record of another GPU with the same facts can be used; and the others."""
        shared: list[Variant] = []
        for variant in missing:
            profile = self._profile(variant)
            for record in self._records_of(self.keys[variant.identity_on_gpu]):
                if profile.gives(record.assumed):
                    self.records[variant.identity_on_gpu] = record
                    shared.append(variant)
                    self._step(variant, "reused")
                    break
        return shared, [v for v in missing if v.identity_on_gpu not in self.records]

    def _records_of(self, key: str) -> list[Record]:
        """The records so far of the variants with a key, each for other GPUs."""
        return [self.records[name] for name in self._by_key[key] if name in self.records]

    def _profile(self, variant: Variant) -> Profile:
        return self.plan.profiles.of(variant.target, variant.profile)

    def _stored(self) -> tuple[list[Variant], list[Variant]]:
        reused: list[Variant] = []
        missing: list[Variant] = []
        for variant in self.plan.variants:
            record = self.lookup.find(self.keys[variant.identity_on_gpu], self._profile(variant))
            if record is not None and not _is_of(variant, record):
                store = self.lookup.store
                store.refuse(store.record_file(record.key), f"it is not the record of {variant}")
                record = None
            if record is None or not record.serves(variant.emit, ptx=self.options.keep_ptx):
                missing.append(variant)
            else:
                self.records[variant.identity_on_gpu] = record.with_bytes_for(variant.emit, ptx=self.options.keep_ptx)
                reused.append(variant)
                self._step(variant, "reused")
        return reused, missing

    def _results(self, missing: list[Variant], costs: Costs) -> Generator[_Result, None, None]:
        """Records in the order in which they are ready. Threads link while the workers compile the next variants."""
        if not missing:
            return
        assert self.runtime is not None
        self.lookup.store.sweep()
        sweep_temporary()
        linkers = ThreadPoolExecutor(_LINKERS, thread_name_prefix="link")
        waiting: dict[Future[Record | Failed], Variant] = {}
        linker = Linker(self.toolchain, self.runtime)
        with (
            linkers,
            _closing_early(self._outcomes(missing, costs)) as outcomes,
        ):
            for outcome in outcomes:
                waiting[linkers.submit(self._finish, outcome, linker)] = outcome.variant
                yield from _completed(waiting, most=_BACKLOG)
            yield from _completed(waiting, most=0)

    def _kept(self, results: Iterator[_Result]) -> Generator[_Result, None, None]:
        """The results, with all records in the store. Records wait for a look at what they were made with."""
        keeper = Keeper(self.lookup)
        try:
            for variant, result in results:
                if isinstance(result, Failed):
                    yield variant, result
                    continue
                keeper.add(self.keys[variant.identity_on_gpu], variant, result)
                if keeper.is_due:
                    yield from map(_result, keeper.keep())
            yield from map(_result, keeper.keep())
        finally:
            keeper.keep()

    def _outcomes(self, missing: list[Variant], costs: Costs) -> Iterator[Outcome]:
        options = self.options
        executor = options.executor or Local(
            options.jobs,
            options.memory,
            costs.of(missing),
            lambda variant: self._step(variant, "started"),
            self.closures,
        )
        twice = frozenset(v.identity for v in missing) if options.twice else sampled(missing)
        return executor.compile(self.plan, missing, seconds=options.seconds, twice=twice)

    def _finish(self, outcome: Outcome, linker: Linker) -> Record | Failed:
        if isinstance(outcome, Failed):
            return outcome
        variant = outcome.variant
        if outcome.advice:
            self.advice.setdefault(f"{variant.op}: {outcome.advice}", variant)
        try:
            record = _retried(lambda: assemble(outcome, self.keys[variant.identity_on_gpu], linker, self.toolchain))
        except TemporaryLost as error:
            return Failed(variant=variant, reason=str(error))
        except PrecastError as error:
            return Failed(variant=variant, reason=str(error), code=error.code)
        if (file := self.sources.changed(variant.source)) is not None:
            reason = f"{file.name} changed during the build: build again"
            return Failed(variant=variant, reason=reason, code=ChangedInputError.code)
        return record

    def _step(self, variant: Variant, state: State, *, seconds: float = 0.0, failed: Failed | None = None) -> None:
        self.done += state != "started"
        total = len(self.plan.variants)
        reason, code = (failed.reason, failed.code) if failed else ("", "")
        step = Step(
            done=self.done, total=total, variant=variant, state=state, seconds=seconds, reason=reason, code=code
        )
        self.show(step)


@contextmanager
def _closing_early(outcomes: Iterator[Outcome]) -> Iterator[Iterator[Outcome]]:
    """Close the outcomes of an executor, so that it stops its work even if not all of them are taken."""
    try:
        yield outcomes
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()


def _retried(assembled: Callable[[], Record]) -> Record:
    """A record; assembling is repeated where a kernel's module has emptied the folder of temporary files meanwhile."""
    for _ in range(_TRIES - 1):
        with suppress(TemporaryLost):
            return assembled()
    return assembled()


def _result(kept: Kept) -> _Result:
    if not kept.changed:
        return kept.variant, kept.record
    reason = f"{kept.changed} changed during the build: build again"
    return kept.variant, Failed(variant=kept.variant, reason=reason, code=ChangedInputError.code)


def _completed(waiting: dict[Future[Record | Failed], Variant], *, most: int) -> Iterator[_Result]:
    """The results that are ready; waits until at most ``most`` are left in ``waiting``."""
    while True:
        for future in [f for f in waiting if f.done()]:
            yield waiting.pop(future), future.result()
        if len(waiting) <= most:
            return
        wait(waiting, return_when=FIRST_COMPLETED)


def _is_of(variant: Variant, record: Record) -> bool:
    """Whether a record is of this variant: the names of its objects are unique to it."""
    names, symbols = entry_names(variant), [product.symbol for product in record.products]
    if variant.attached:
        names, symbols = names[:1], symbols[:1]
    return symbols == [f"__tvm_ffi_{name}" for name in names]
