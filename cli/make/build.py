"""Compile the variants of manifests into a cache."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precast.cli.shared.output import count, size
from precast.cli.shared.rate import Rate

if TYPE_CHECKING:
    from precast.build.plan.plan import Plan
    from precast.build.report import Report, Step
    from precast.build.store.store import Store

_INTERRUPTED = 130


def command(
    manifests: Annotated[list[Path], typer.Argument(help="The manifests.", metavar="MANIFEST...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the cache.", metavar="CACHE")],
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: as many as fit this machine.", metavar="N"),
    ] = 0,
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="Build for this target alone; may be repeated.")
    ] = None,
    name: Annotated[str, typer.Option(help="The cache's name, in place of the first manifest's.")] = "",
    store: Annotated[
        Path | None, typer.Option(help="Where built variants are kept for later builds.", envvar="PRECAST_STORE")
    ] = None,
    shard: Annotated[
        str, typer.Option(help="Build the I-th of N parts alone; 'precast merge' joins them.", metavar="I/N")
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
        bool, typer.Option("--remote-read-only", help="Take from the shared store, and put nothing into it.")
    ] = False,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="The GPU to assume for its targets, where a kernel asks; may be repeated.", metavar="GPU"),
    ] = None,
    profile_from_device: Annotated[
        bool, typer.Option("--profile-from-device", help="Assume this machine's GPU for its targets.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one variant may take.")] = 600.0,
    memory: Annotated[
        int, typer.Option(min=0, help="MiB that one worker may take; 0 is its share of the free memory.", metavar="MIB")
    ] = 0,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="End at the first failure; write no cache.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events, one JSON object a line; the last is the report.")
    ] = False,
) -> None:
    """Compile the variants of manifests into a cache."""
    from precast.build import builder
    from precast.build.compile.cluster import Cluster
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.planner import plan_files
    from precast.build.plan.shard import Shard, part_of

    if (executor == "dask") != bool(scheduler):
        raise typer.BadParameter("--executor dask and --scheduler ADDRESS go together")
    profiles = Profiles.named(profile or ())
    if profile_from_device:
        from precast.build.gpu.measure import measure

        profiles = Profiles().over((*profiles.chosen, measure()))
    opened = open_store(store, remote_cache, read_only=remote_read_only)
    options = builder.Options(
        jobs=jobs or None,
        seconds=timeout,
        memory=memory * (1 << 20) or None,
        fail_fast=fail_fast,
        executor=Cluster(scheduler) if scheduler else None,
    )
    try:
        with _ended_like_ctrl_c():
            plan = plan_files(manifests, targets=target or (), name=name, profiles=profiles, notes=opened.notes)
            if shard:
                plan = part_of(plan, Shard.parse(shard))
            with _shown(plan, as_json) as show:
                report = builder.build(plan, output, store=opened, options=options, show=show)
    except KeyboardInterrupt:
        print(
            "interrupted: what was built is in the store, and the cache is as it was; build again to go on",
            file=sys.stderr,
        )
        raise typer.Exit(_INTERRUPTED) from None
    _finish(plan, report, output, as_json)
    if not report.complete:
        raise typer.Exit(1)


def open_store(path: Path | None, remote_cache: str, *, read_only: bool) -> Store:
    """The store at a path, or the user's; with a remote behind it, where one is named."""
    from precast.build.store.store import Store, default_store

    path = path or default_store()
    if not remote_cache:
        return Store(path)
    from precast.build.store.remote import Remote, SharedStore

    def warn(text: str) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)

    return SharedStore(path, Remote(remote_cache, warn, read_only=read_only), warn)


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """A polite request to end, as CI makes it, ends the workers too."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shown(plan: Plan, as_json: bool) -> Iterator[Any]:
    if as_json:
        yield lambda step: _event(step.to_json())
        return
    with Rate(len(plan.variants)) as rate:

        def show(step: Step) -> None:
            what = str(step.variant)
            if step.state == "started":
                rate.begin(what)
            elif step.state == "reused":
                rate.skip()
            else:
                note = f"{step.seconds:.2f} s" if step.state == "built" else "failed"
                rate.end(what, note, keep=step.state == "failed")

        yield show


def _event(data: dict[str, Any]) -> None:
    print(json.dumps(data, sort_keys=True, allow_nan=False), flush=True)


def _finish(plan: Plan, report: Report, output: Path, as_json: bool) -> None:
    for failure in report.failed:
        print(f"\nerror: {failure.variant.location}: {failure.variant}: {failure.reason}", file=sys.stderr)
        if failure.details.strip():
            print("\n".join(f"    {line}" for line in failure.details.rstrip().splitlines()), file=sys.stderr)
    for skipped in plan.skipped:
        print(f"skipped: {skipped.variant}: {skipped.reason}", file=sys.stderr)
    if as_json:
        skips = [{**s.variant.to_json(), "reason": s.reason} for s in plan.skipped]
        _event({**report.to_json(), "cache": str(output), "skipped": skips})
    else:
        print(_as_text(report, output))


def _as_text(report: Report, output: Path) -> str:
    lines = [f"slow:   {b.variant}: {b.seconds:.2f} s" for b in report.slowest()]
    lines += [f"large:  {b.variant}: {size(b.size)}" for b in report.largest()]
    lines += [f"spills: {b.variant}: {b.spilled} bytes a thread" for b in report.spilling()]
    states = [f"{count(len(report.built), 'variant')} built", f"{len(report.reused)} reused"]
    states += [f"{len(report.failed)} failed"] if report.failed else []
    written = f"{output} ({size(report.size)})" if report.files else "nothing was written"
    return "\n".join([*lines, f"{', '.join(states)}: {written}"])
