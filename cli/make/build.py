"""Compile the variants of manifests into a cache.

Manifests with different toolchains get a cache each, in CACHE/NAME. Exit status 1 means that some variants failed;
the cache holds the others.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from precast.cli.shared import options
from precast.cli.shared.failures import render
from precast.cli.shared.manifest_options import ManifestOptions
from precast.cli.shared.output import count, print_message, size
from precast.cli.shared.progress import Progress
from precast.cli.shared.toolchain_text import toolchain_to_json

if TYPE_CHECKING:
    from precast.build import builder
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.plan import Plan
    from precast.build.plan.shard import Shard
    from precast.build.results.report import Report, Step
    from precast.build.store.store import Store
    from precast.build.toolchains.plans import Group

_ADDRESS = re.compile(r"([a-z]+://)?[^/\s:]+:[0-9]{1,5}", re.ASCII)
_KEPT = "the store keeps what was built, and the cache is unchanged; build again to continue"
# A variant that takes longer, or is larger, is worth a line.
_SLOW, _LARGE = 10.0, 1_000_000
# More than this is a mistake, and would overflow the system call that gets the value.
_LARGEST = {"--timeout": 7 * 24 * 3600, "--memory": 1 << 30}


class Kept(str, Enum):
    """What a cache may keep beside its kernels."""

    ptx = "ptx"


def command(
    manifests: options.Manifests,
    output: options.OutputCache,
    jobs: options.Jobs = 0,
    target: options.Target = None,
    name: options.CacheName = "",
    store: options.Store = None,
    shard: Annotated[
        str, Option(help="Build only the I-th of N parts; 'precast merge' joins them.", metavar="I/N")
    ] = "",
    executor: Annotated[Literal["local", "dask"], Option(help="Compile here, or on a Dask cluster.")] = "local",
    scheduler: Annotated[str, Option(help="The Dask scheduler, such as tcp://10.0.0.5:8786.", metavar="ADDRESS")] = "",
    remote_cache: Annotated[
        str,
        Option(
            help="A store that machines share: s3://, gs://, file://...", envvar="PRECAST_REMOTE_CACHE", metavar="URL"
        ),
    ] = "",
    remote_read_only: Annotated[
        bool, Option("--remote-read-only", help="Read the shared store, and write nothing into it.")
    ] = False,
    profile: options.Profile = None,
    profile_from_device: Annotated[
        bool, Option("--profile-from-device", help="Build for this machine's GPU, where kernels query its properties.")
    ] = False,
    retarget: options.Retarget = None,
    pass_env: options.PassEnv = None,
    hermetic: options.Hermetic = False,
    emit: options.Emit = None,
    find_links: options.FindLinks = None,
    offline: options.Offline = False,
    dictionary: Annotated[
        Path | None,
        Option(
            help="Compress with the dictionary of this cache, so that unchanged artifacts keep their bytes.",
            metavar="CACHE",
        ),
    ] = None,
    keep: Annotated[
        Kept | None, Option("--keep", help="Keep the PTX in the cache, for 'precast verify --emulate'.")
    ] = None,
    timeout: options.Timeout = 600.0,
    memory: Annotated[
        int, Option(min=0, help="MiB for one worker; 0 means its share of the free memory.", metavar="MIB")
    ] = 0,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Stop at the first failure, and write no cache.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print every failure in full.")] = False,
    as_json: Annotated[
        bool, Option("--json", help="Print events as JSON, one object per line; the last is the report.")
    ] = False,
) -> None:
    from precast.build import builder
    from precast.build.cache.compress import dictionary_of
    from precast.build.compile.cluster import Cluster
    from precast.build.plan.shard import Shard

    _check_largest({"--timeout": timeout, "--memory": memory})
    _check_scheduler(executor, scheduler)
    build = _Build(
        manifests=ManifestOptions(
            manifests=manifests,
            target=target,
            name=name,
            retarget=retarget,
            pass_env=pass_env,
            hermetic=hermetic,
            emit=emit,
            find_links=find_links,
            offline=offline,
        ),
        output=output,
        shard=Shard.parse(shard) if shard else None,
        profiles=_profiles(profile or (), target or (), from_device=profile_from_device),
        store=_open_store(store, remote_cache, read_only=remote_read_only),
        options=builder.Options(
            jobs=jobs or None,
            seconds=timeout,
            memory=memory * (1 << 20) or None,
            fail_fast=fail_fast,
            executor=Cluster(scheduler) if scheduler else None,
            dictionary=dictionary_of(dictionary) if dictionary else None,
            keep_ptx=bool(keep),
        ),
        verbose=verbose,
        as_json=as_json,
    )
    if not build.run():
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """A build whose options are checked."""

    manifests: ManifestOptions
    output: Path
    shard: Shard | None
    profiles: Profiles
    store: Store
    options: builder.Options
    verbose: bool
    as_json: bool

    def run(self) -> bool:
        """Build the cache of each toolchain; whether all of their variants are there."""
        from precast.build.cache.cache_folder import check_output
        from precast.build.toolchains.plans import cache_folders

        groups = self.manifests.groups()
        caches = cache_folders(groups, self.output)
        for cache in caches:
            check_output(cache)
        complete = True
        for group, cache in zip(groups, caches, strict=True):
            complete &= self._build(group, cache)
            if self.options.fail_fast and not complete:
                break
        return complete

    def _build(self, group: Group, cache: Path) -> bool:
        from precast.build import builder
        from precast.build.plan.shard import part_of

        try:
            with _sigterm_as_ctrl_c(), nullcontext() if self.as_json else Progress() as progress:
                display = _Display(progress)
                display.stage(f"reading {count(len(group.manifests), 'manifest')} and importing their kernels")
                toolchains = self.manifests.toolchains(display.stage)
                plan = group.plan(toolchains, profiles=self.profiles, notes=self.store.notes)
                plan = part_of(plan, self.shard) if self.shard else plan
                display.stage(f"looking up {count(len(plan.variants), 'variant')} in the store and starting workers")
                report = builder.build(plan, cache, store=self.store, options=self.options, show=display.show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_KEPT) from None
        _print_report(plan, report, cache, as_json=self.as_json, verbose=self.verbose)
        return report.complete


def _check_largest(values: Mapping[str, float]) -> None:
    for option, value in values.items():
        if value > _LARGEST[option]:
            raise typer.BadParameter(f"{option} is at most {_LARGEST[option]}")


def _check_scheduler(executor: str, scheduler: str) -> None:
    if (executor == "dask") != bool(scheduler):
        raise typer.BadParameter("--executor dask and --scheduler ADDRESS go together")
    if scheduler and not _ADDRESS.fullmatch(scheduler):
        raise typer.BadParameter(f"--scheduler: {scheduler!r} is not an address: write it like tcp://10.0.0.5:8786")


def _profiles(names: Sequence[str], targets: Sequence[str], *, from_device: bool) -> Profiles:
    """The GPUs that kernels may query. A target without a known GPU is refused before any kernel is imported."""
    from precast.build.gpu.profile import Profiles
    from precast.loader.contract.format.target import Target

    profiles = Profiles.named(names)
    if from_device:
        from precast.build.gpu.measure import measure

        profiles = Profiles().over((*profiles.chosen, measure()))
    for target in targets:
        profiles.of(Target.parse(target))
    return profiles


def _open_store(path: Path | None, remote_cache: str, *, read_only: bool) -> Store:
    """The store at a path, or the user's store, with the shared store behind it if there is one."""
    from precast.build.disk.output_folder import nearest_folder
    from precast.build.store.store import Store, default_store

    def warn(text: str) -> None:
        print_message(f"warning: {text}")

    path = path or default_store()
    nearest_folder(path)  # if the path is a file, this fails before anything is compiled
    if not remote_cache:
        return Store(path, warn)
    from precast.build.store.remote import Remote

    _check_scheme(remote_cache)
    return Store(path, warn, Remote(remote_cache, warn, read_only=read_only))


def _check_scheme(url: str) -> None:
    """Refuse a scheme that fsspec does not have. Opening the store finds what else may be wrong with a URL."""
    scheme, separator, _ = url.partition("://")
    try:
        from fsspec import available_protocols
    except ImportError:  # opening the store reports that
        return
    if separator and "::" not in scheme and scheme not in available_protocols():
        raise typer.BadParameter(f"--remote-cache: {scheme}:// is not a supported scheme: use s3://, gs:// or file://")


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM, which CI sends to cancel a job, ends the workers as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Display:
    """The output of a running build: progress on stderr, or events on stdout with ``--json``."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._usable = False

    def stage(self, text: str) -> None:
        """Show what the build does before and after it compiles."""
        if self._progress is not None:
            self._progress.stage(text)

    def show(self, step: Step) -> None:
        """Show one step of the build."""
        progress = self._progress
        if progress is None:
            _event(step.to_json())
            return
        progress.total = step.total
        variant = str(step.variant)
        if step.state == "started":
            progress.begin(variant)
        elif step.state == "reused":
            progress.skip()
        else:
            note = f"{step.seconds:.2f} s" if step.state == "built" else "failed"
            progress.step(variant, note, keep=step.state == "failed")
        self._usable |= step.state in ("reused", "built")
        if step.done == step.total and self._usable:
            progress.stage("writing the cache")


def _event(data: dict[str, Any]) -> None:
    print(json.dumps(data, sort_keys=True, allow_nan=False), flush=True)


def _print_report(plan: Plan, report: Report, output: Path, *, as_json: bool, verbose: bool) -> None:
    if report.failed:
        print_message(f"\n{render(report.failed, verbose=verbose)}")
    for skipped in plan.skipped:
        print_message(f"skipped: {skipped.variant}: {skipped.reason}")
    for variant, text in report.advice:
        print_message(f"warning: {variant.location}: {text}")
    if report.unobserved:
        print_message(f"warning: reads by native code and other programs are not observed: {report.unobserved}")
    if as_json:
        skips = [{**s.variant.to_json(), "reason": s.reason} for s in plan.skipped]
        toolchain = {"toolchain": toolchain_to_json(plan.interpreter)} if plan.interpreter.isolated else {}
        _event({**report.to_json(), **toolchain, "cache": str(output), "skipped": skips})
    else:
        print(_as_text(report, output))


UNDECLARED = "(undeclared)"  # of what a hermetic build did not let the compilation read


def _as_text(report: Report, output: Path) -> str:
    lines = [f"slow:   {b.variant}: {b.seconds:.2f} s" for b in report.slowest() if b.seconds >= _SLOW]
    lines += [f"large:  {b.variant}: {size(b.size)}" for b in report.largest() if b.size >= _LARGE]
    lines += [f"spills: {b.variant}: {b.spilled} bytes a thread" for b in report.spilling()]
    for built in report.unsteady():
        undeclared = [text for text in built.unsteady if UNDECLARED in text]
        untracked = [text for text in built.unsteady if text not in undeclared]
        lines += [f"undeclared input: {built.variant}: {'; '.join(undeclared)}"] if undeclared else []
        lines += [f"untracked input: {built.variant}: {'; '.join(untracked)}"] if untracked else []
    lines += [f"unlaunchable: the cubin of {b.variant}: {b.unlaunchable}" for b in report.unlaunchable()]
    lines += [f"measured: {report.tuning}"] if report.tuning else []
    states = [f"{count(len(report.built), 'variant')} built", f"{len(report.reused)} reused"]
    states += [f"{len(report.failed)} failed"] if report.failed else []
    written = f"{output} ({size(report.size)})" if report.files else "nothing was written"
    return "\n".join([*lines, f"{', '.join(states)}: {written}"])
