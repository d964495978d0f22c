"""Compile the variants of manifests into a cache."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from precast.cli.output import Progress, count, emit, size

if TYPE_CHECKING:
    from precast.build.store import Store


def command(
    manifests: Annotated[list[Path], typer.Argument(help="The manifests.", metavar="MANIFEST...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the cache.", metavar="CACHE")],
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0 is one a processor.", metavar="N")
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Compile the variants of manifests into a cache."""
    from precast.build import builder
    from precast.build.cluster import Cluster
    from precast.build.measure import measure
    from precast.build.planner import plan_files
    from precast.build.profile import Profiles
    from precast.build.shard import Shard, part_of

    if (executor == "dask") != bool(scheduler):
        raise typer.BadParameter("--executor dask and --scheduler ADDRESS go together")
    profiles = Profiles.named(profile or ())
    if profile_from_device:
        profiles = Profiles().over((*profiles.chosen, measure()))
    plan = plan_files(manifests, targets=target or (), name=name, profiles=profiles)
    if shard:
        plan = part_of(plan, Shard.parse(shard))
    with Progress(len(plan.variants)) as progress:

        def show(step: builder.Progress) -> None:
            if step.state != "reused" or not as_json:
                note = f"{step.state}, {step.seconds:.2f} s" if step.state == "built" else step.state
                progress.step(str(step.variant), note, keep=step.state == "failed")

        report = builder.build(
            plan,
            output,
            store=open_store(store, remote_cache, read_only=remote_read_only),
            jobs=jobs or None,
            seconds=timeout,
            executor=Cluster(scheduler) if scheduler else None,
            show=show,
        )
    for failure in report.failed:
        print(f"\nerror: {failure.variant.location}: {failure.variant}: {failure.reason}", file=sys.stderr)
        if failure.details.strip():
            print("\n".join(f"    {line}" for line in failure.details.rstrip().splitlines()), file=sys.stderr)
    for skipped in plan.skipped:
        print(f"skipped: {skipped.variant}: {skipped.reason}", file=sys.stderr)
    emit(_as_json(report, output), _as_text(report, output), as_json)
    if not report.complete:
        raise typer.Exit(1)


def open_store(path: Path | None, remote_cache: str, *, read_only: bool) -> Store:
    """The store at a path, or the user's; with a remote behind it, where one is named."""
    from precast.build.store import Store, default_store

    path = path or default_store()
    if not remote_cache:
        return Store(path)
    from precast.build.remote import Remote, SharedStore

    def warn(text: str) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)

    return SharedStore(path, Remote(remote_cache, warn, read_only=read_only), warn)


def _as_json(report: object, output: Path) -> dict[str, object]:
    from precast.build.builder import Report

    assert isinstance(report, Report)
    return {
        "cache": str(output),
        "built": len(report.built),
        "reused": len(report.reused),
        "failed": [{**f.variant.to_json(), "reason": f.reason, "details": f.details} for f in report.failed],
        "files": report.files,
        "size": report.size,
    }


def _as_text(report: object, output: Path) -> str:
    from precast.build.builder import Report

    assert isinstance(report, Report)
    states = [f"{count(len(report.built), 'variant')} built", f"{len(report.reused)} reused"]
    states += [f"{len(report.failed)} failed"] if report.failed else []
    written = f"{output} ({size(report.size)})" if report.files else "nothing was written"
    return f"{', '.join(states)}: {written}"
