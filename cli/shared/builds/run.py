"""A build as its command requests it, with progress."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from precast.cli.shared.builds.display import Display
from precast.cli.shared.manifest_options import ManifestOptions, reading
from precast.cli.shared.output import count
from precast.cli.shared.progress import Progress

if TYPE_CHECKING:
    from precast.build.build_run import Options
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.plan import Plan
    from precast.build.plan.shard import Shard
    from precast.build.report import Report
    from precast.build.store.store import Store

_KEPT = "the store keeps what was built, and the cache is unchanged; build again to continue"


class Result(NamedTuple):
    """The plan of a cache, what became of it, and the folder."""

    plan: Plan
    report: Report
    cache: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """A build whose options are checked. ``project`` is its project file; ``quiet`` shows no progress in a log."""

    manifests: ManifestOptions
    output: Path
    shard: Shard | None
    profiles: Profiles
    store: Store
    options: Options
    as_json: bool
    project: Path | None = None
    quiet: bool = False

    @property
    def files(self) -> Sequence[Path]:
        """The files that say what to build."""
        return [*self.manifests.manifests, *([self.project] if self.project is not None else [])]

    def run(self) -> Result:
        """Build the cache; its folder is checked first."""
        from precast.build.builder import build
        from precast.build.cache.cache_folder import check_output
        from precast.build.plan.shard import part_of

        check_output(self.output)
        progress = Progress()
        shown = not self.as_json and not (self.quiet and progress.plain)
        try:
            with sigterm_as_ctrl_c(), progress if shown else nullcontext():
                display = Display(progress if shown else None, events=self.as_json)
                display.stage(reading(len(self.manifests.manifests)))
                plan = self.manifests.read(self.profiles, self.store.notes)
                plan = part_of(plan, self.shard) if self.shard else plan
                display.stage(f"looking up {count(len(plan.variants), 'variant')} in the store and starting workers")
                report = build(plan, self.output, store=self.store, options=self.options, show=display.show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_KEPT) from None
        return Result(plan, report, self.output)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM, which CI sends to cancel a job, ends the workers as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
