"""Build what a cache holds again, and compare the bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.find_links import FindLinks, Offline, toolchains_from
from precast.cli.shared.output import count, emit, tell
from precast.cli.shared.pass_env import PassEnv, passed
from precast.cli.shared.progress import Progress

if TYPE_CHECKING:
    from precast.build.results.reproduce import Reproduction


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
    find_links: FindLinks = None,
    offline: Offline = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one variant may take.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Build what a cache holds again, and compare the bytes.

    Exit status 1 means that some artifacts differ, or are in the cache and in no manifest; they are listed.
    """
    from precast.build.compile.executor import Local
    from precast.build.gpu.profile import Profiles
    from precast.build.results.reproduce import reproduce
    from precast.build.toolchains.plans import cache_folders, plans_of_files

    if len(paths) < 2:
        raise typer.BadParameter("name at least one manifest, and the cache last")
    *manifests, cache = paths
    plans = plans_of_files(
        manifests,
        toolchains=toolchains_from(find_links, offline, tell),
        profiles=Profiles.named(profile or ()),
        passed=passed(pass_env),
    )
    executor = Local(jobs or None)
    results: dict[str, Reproduction] = {}
    text: list[str] = []
    with Progress(sum(min(sample, len(plan.variants)) or len(plan.variants) for plan in plans)) as progress:
        for plan, place in zip(plans, cache_folders(plans, cache), strict=True):
            results[str(place)] = found = reproduce(
                plan,
                place,
                executor=executor,
                sample=sample or None,
                seed=seed,
                seconds=timeout,
                show=lambda variant: progress.step(str(variant)),
            )
            text += [f"{place}:"] if len(plans) > 1 else []
            text += lines_of(found)
    data = [found.to_json() for found in results.values()]
    several = {"caches": dict(zip(results, data, strict=True))}
    emit(data[0] if len(data) == 1 else several, "\n".join(text), as_json)
    if not all(found.holds and found.same for found in results.values()):
        raise typer.Exit(1)


def lines_of(found: Reproduction) -> list[str]:
    """The result as text; that nothing was compared is told on its own."""
    lines = [f"different: {name}: {how}" for name, how in found.different.items()]
    lines += [f"in no manifest: {name}" for name in found.unasked]
    lines.append(f"{count(len(found.same), 'artifact')} built again, byte for byte; {len(found.different)} different")
    if found.left_out:
        lines.append(f"{count(found.left_out, 'variant')} not in the sample")
    if found.elsewhere:
        lines.append(f"{count(found.elsewhere, 'artifact')} of other hosts: build those again there")
    if not (found.same or found.different):
        print("nothing of this cache is in these manifests", file=sys.stderr)
    return lines
