"""Build what a cache holds again, and compare the bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit
from precast.cli.shared.pass_env import PassEnv, passed
from precast.cli.shared.progress import Progress


def command(
    paths: Annotated[list[Path], typer.Argument(help="The manifests, then the cache.", metavar="MANIFEST... CACHE")],
    sample: Annotated[
        int, typer.Option(min=0, help="Build this many variants again, instead of all.", metavar="N")
    ] = 0,
    seed: Annotated[str, typer.Option(help="The seed that draws the sample; by default the cache's digest.")] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0 is one a processor.", metavar="N")
    ] = 0,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="A GPU that the cache was built for, if its build named any; may be repeated.", metavar="GPU"
        ),
    ] = None,
    pass_env: PassEnv = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one variant may take.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Build what a cache holds again, and compare the bytes.

    Exit status 1 means that some artifacts differ, or are in the cache and in no manifest; they are listed.
    """
    from precast.build.compile.executor import Local
    from precast.build.gpu.profile import Profiles
    from precast.build.plan.planner import plan_files
    from precast.build.reproduce import reproduce

    if len(paths) < 2:
        raise typer.BadParameter("name at least one manifest, and the cache last")
    *manifests, cache = paths
    plan = plan_files(manifests, profiles=Profiles.named(profile or ()), passed=passed(pass_env))
    executor = Local(jobs or None)
    with Progress(min(sample, len(plan.variants)) or len(plan.variants)) as progress:
        found = reproduce(
            plan,
            cache,
            executor=executor,
            sample=sample or None,
            seed=seed,
            seconds=timeout,
            show=lambda variant: progress.step(str(variant)),
        )
    lines = [f"different: {name}: {how}" for name, how in found.different.items()]
    lines += [f"in no manifest: {name}" for name in found.unasked]
    lines.append(f"{count(len(found.same), 'artifact')} built again, byte for byte; {len(found.different)} different")
    if found.left_out:
        lines.append(f"{count(found.left_out, 'variant')} not in the sample")
    if found.elsewhere:
        lines.append(f"{count(found.elsewhere, 'artifact')} of other hosts: build those again there")
    if not (found.same or found.different):
        print("nothing of this cache is in these manifests", file=sys.stderr)
    emit(found.to_json(), "\n".join(lines), as_json)
    if not found.holds or not found.same:
        raise typer.Exit(1)
