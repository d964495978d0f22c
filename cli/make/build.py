"""Compile the variants of manifests into a cache."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precast.cli.shared.emitted import Emit, emitted
from precast.cli.shared.failures import render
from precast.cli.shared.find_links import FindLinks, Offline, toolchains_from
from precast.cli.shared.output import count, size, tell
from precast.cli.shared.pass_env import PassEnv, passed
from precast.cli.shared.progress import Progress
from precast.cli.shared.retarget import Retarget
from precast.cli.shared.toolchain_text import toolchain_to_json

if TYPE_CHECKING:
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.plan import Plan
    from precast.build.results.report import Report, Step
    from precast.build.store.store import Store

_ADDRESS = re.compile(r"([a-z]+://)?[^/\s:]+:[0-9]{1,5}", re.ASCII)
_KEPT = "what was built is in the store, and the cache is as it was; build again to go on"
# The most that an option takes: more is a mistake, and would overflow the system calls that it goes to.
_MOST = {"--jobs": 1024, "--timeout": 7 * 24 * 3600, "--memory": 1 << 30}


def command(
    manifests: Annotated[list[Path], typer.Argument(help="The manifests.", metavar="MANIFEST...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the cache.", metavar="CACHE")],
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: as many as fit here.", metavar="N"),
    ] = 0,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Build for this target only; may be repeated.", metavar="TARGET"),
    ] = None,
    name: Annotated[str, typer.Option(help="The cache's name, in place of the first manifest's.", metavar="NAME")] = "",
    store: Annotated[
        Path | None,
        typer.Option(help="Where built variants are kept for later builds.", envvar="PRECAST_STORE", metavar="DIR"),
    ] = None,
    shard: Annotated[
        str, typer.Option(help="Build only the I-th of N parts; 'precast merge' joins them.", metavar="I/N")
    ] = "",
    executor: Annotated[
        Literal["local", "dask"], typer.Option(help="Where to compile: here, or on a Dask cluster.")
    ] = "local",
    scheduler: Annotated[
        str, typer.Option(help="The Dask scheduler, such as tcp://10.0.0.5:8786.", metavar="ADDRESS")
    ] = "",
    remote_cache: Annotated[
        str,
        typer.Option(
            help="A store that machines share: s3://, gs://, file://...", envvar="PRECAST_REMOTE_CACHE", metavar="URL"
        ),
    ] = "",
    remote_read_only: Annotated[
        bool, typer.Option("--remote-read-only", help="Only read the shared store; write nothing into it.")
    ] = False,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="A GPU to build for, where a kernel asks for it; may be repeated.", metavar="GPU"),
    ] = None,
    profile_from_device: Annotated[
        bool, typer.Option("--profile-from-device", help="Assume this machine's GPU for its targets.")
    ] = False,
    retarget: Retarget = None,
    pass_env: PassEnv = None,
    emit: Emit = None,
    find_links: FindLinks = None,
    offline: Offline = False,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Compress with the dictionary of this cache, so that what did not change keeps its bytes.",
            metavar="CACHE",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one variant may take.", metavar="SEC")] = 600.0,
    memory: Annotated[
        int,
        typer.Option(min=0, help="MiB for one worker; 0: its share of the free memory.", metavar="MIB"),
    ] = 0,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure; write no cache.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every failure, with all its details.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events, one JSON object a line; the last is the report.")
    ] = False,
) -> None:
    """Compile the variants of manifests into a cache.

    Manifests with different toolchains make a cache each, in CACHE/NAME. Exit status 1 means that some variants failed;
    the cache holds the others.
    """
    from precast.build import builder
    from precast.build.cache.cache_folder import check_output
    from precast.build.cache.compress import dictionary_of
    from precast.build.compile.cluster import Cluster
    from precast.build.plan.shard import Shard, part_of
    from precast.build.toolchains.plans import cache_folders, groups_of_files

    _check_most({"--jobs": jobs, "--timeout": timeout, "--memory": memory})
    _check_scheduler(executor, scheduler)
    part = Shard.parse(shard) if shard else None
    variables = passed(pass_env)
    profiles = _profiles(profile or (), target or (), from_device=profile_from_device)
    groups = groups_of_files(
        manifests,
        targets=target or (),
        name=name,
        passed=variables,
        emit=emitted(emit),
        retarget=retarget or (),
    )
    caches = cache_folders(groups, output)
    for cache in caches:
        check_output(cache)
    opened = open_store(store, remote_cache, read_only=remote_read_only)
    options = builder.Options(
        jobs=jobs or None,
        seconds=timeout,
        memory=memory * (1 << 20) or None,
        fail_fast=fail_fast,
        executor=Cluster(scheduler) if scheduler else None,
        dictionary=dictionary_of(dictionary) if dictionary else None,
    )
    complete = True
    for group, cache in zip(groups, caches, strict=True):
        try:
            with _sigterm_as_ctrl_c(), _Display.opened(as_json) as display:
                display.stage(f"reading {count(len(group.manifests), 'manifest')} and importing their kernels")
                toolchains = toolchains_from(find_links, offline, display.stage)
                plan = group.plan(toolchains, profiles=profiles, notes=opened.notes)
                plan = part_of(plan, part) if part else plan
                display.stage(f"looking up {count(len(plan.variants), 'variant')} in the store and starting workers")
                report = builder.build(plan, cache, store=opened, options=options, show=display.show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_KEPT) from None
        _finish(plan, report, cache, as_json=as_json, verbose=verbose)
        complete &= report.complete
        if fail_fast and not complete:
            break
    if not complete:
        raise typer.Exit(1)


def _check_most(values: Mapping[str, float]) -> None:
    for option, value in values.items():
        if value > _MOST[option]:
            raise typer.BadParameter(f"{option} is at most {_MOST[option]}")


def _check_scheduler(executor: str, scheduler: str) -> None:
    if (executor == "dask") != bool(scheduler):
        raise typer.BadParameter("--executor dask and --scheduler ADDRESS go together")
    if scheduler and not _ADDRESS.fullmatch(scheduler):
        raise typer.BadParameter(f"--scheduler: {scheduler!r} is not an address: write it like tcp://10.0.0.5:8786")


def _profiles(names: Sequence[str], targets: Sequence[str], *, from_device: bool) -> Profiles:
    """The GPUs to assume. A target that no GPU is known for is refused here, before a kernel is imported."""
    from precast.build.gpu.profile import Profiles
    from precast.loader.format.target import Target

    profiles = Profiles.named(names)
    if from_device:
        from precast.build.gpu.measure import measure

        profiles = Profiles().over((*profiles.chosen, measure()))
    for target in targets:
        profiles.of(Target.parse(target))
    return profiles


def open_store(path: Path | None, remote_cache: str, *, read_only: bool) -> Store:
    """The store at a path, or the user's; with a remote one behind it, where one is named."""
    from precast.build.disk.output_folder import nearest_folder
    from precast.build.store.store import Store, default_store

    def warn(text: str) -> None:
        tell(f"warning: {text}")

    path = path or default_store()
    nearest_folder(path)  # an error before anything is compiled, where that is a file
    if not remote_cache:
        return Store(path, warn)
    from precast.build.store.remote import Remote

    _check_scheme(remote_cache)
    return Store(path, warn, Remote(remote_cache, warn, read_only=read_only))


def _check_scheme(url: str) -> None:
    """Refuse a kind of store that fsspec does not know. What is else wrong with a URL, opening it tells."""
    scheme, found, _ = url.partition("://")
    try:
        from fsspec import available_protocols
    except ImportError:  # opening the store says so
        return
    if found and "::" not in scheme and scheme not in available_protocols():
        raise typer.BadParameter(f"--remote-cache: {scheme}:// is no kind of store: use s3://, gs:// or file://")


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
    """What a build shows while it runs: progress on stderr, or events on stdout with ``--json``."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._usable = False

    @classmethod
    @contextmanager
    def opened(cls, as_json: bool) -> Iterator[_Display]:
        """The display, for as long as the build runs."""
        if as_json:
            yield cls(None)
            return
        with Progress() as progress:
            yield cls(progress)

    def stage(self, text: str) -> None:
        """What the build does before and after it compiles."""
        if self._progress is not None:
            self._progress.stage(text)

    def show(self, step: Step) -> None:
        """One step of the build, as the builder reports it."""
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


def _finish(plan: Plan, report: Report, output: Path, *, as_json: bool, verbose: bool) -> None:
    if report.failed:
        tell(f"\n{render(report.failed, verbose=verbose)}")
    for skipped in plan.skipped:
        tell(f"skipped: {skipped.variant}: {skipped.reason}")
    if as_json:
        skips = [{**s.variant.to_json(), "reason": s.reason} for s in plan.skipped]
        own = {"toolchain": toolchain_to_json(plan.interpreter)} if plan.interpreter.isolated else {}
        _event({**report.to_json(), **own, "cache": str(output), "skipped": skips})
    else:
        print(_as_text(report, output))


def _as_text(report: Report, output: Path) -> str:
    lines = [f"slow:   {b.variant}: {b.seconds:.2f} s" for b in report.slowest()]
    lines += [f"large:  {b.variant}: {size(b.size)}" for b in report.largest()]
    lines += [f"spills: {b.variant}: {b.spilled} bytes a thread" for b in report.spilling()]
    lines += [f"unsteady: {b.variant} read what no key covers: {'; '.join(b.unsteady)}" for b in report.unsteady()]
    lines += [f"unlaunchable: the cubin of {b.variant}: {b.unlaunchable}" for b in report.unlaunchable()]
    lines += [f"measured: {report.tuning}"] if report.tuning else []
    states = [f"{count(len(report.built), 'variant')} built", f"{len(report.reused)} reused"]
    states += [f"{len(report.failed)} failed"] if report.failed else []
    written = f"{output} ({size(report.size)})" if report.files else "nothing was written"
    return "\n".join([*lines, f"{', '.join(states)}: {written}"])
