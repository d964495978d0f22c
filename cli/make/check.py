"""Check that a cache holds every variant of some manifests as a build would make it, and that no byte is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.emitted import Emit, emitted
from precast.cli.shared.find_links import FindLinks, Offline, toolchains_from
from precast.cli.shared.output import count, emit, size, tell
from precast.cli.shared.pass_env import PassEnv, passed
from precast.cli.shared.retarget import Retarget

if TYPE_CHECKING:
    from precast.build.cache.coverage import Coverage


def command(
    paths: Annotated[list[Path], typer.Argument(help="The manifests, then the cache.", metavar="MANIFEST... CACHE")],
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", help="Check this target alone; may be repeated.")
    ] = None,
    retarget: Retarget = None,
    pass_env: PassEnv = None,
    emits: Emit = None,
    find_links: FindLinks = None,
    offline: Offline = False,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="A GPU that the cache must serve, where kernels ask; may be repeated.", metavar="GPU"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check that a cache holds every variant of some manifests as a build would make it, and that no byte is damaged.

    Every file of the cache is read. In a cache for several hosts, a variant must be there for each of them; where GPUs
    are named, by the manifests or here, for each GPU. Exit status 1 means that some artifacts are missing, damaged, or
    made from something that has changed since; they are listed, with the file that has changed.
    """
    from precast.build.cache.contents import CacheContents
    from precast.build.cache.coverage import coverage
    from precast.build.compile.worker import answers_here
    from precast.build.gpu.profile import Profiles
    from precast.build.toolchains.plans import cache_folders, plans_of_files

    if len(paths) < 2:
        raise typer.BadParameter("name at least one manifest, and the cache last")
    *manifests, cache = paths
    profiles = Profiles.named(profile or ())
    plans = plans_of_files(
        manifests,
        toolchains=toolchains_from(find_links, offline, tell),
        targets=target or (),
        profiles=profiles,
        passed=passed(pass_env),
        emit=emitted(emits),
        retarget=retarget or (),
    )
    results: dict[str, Coverage] = {}
    text: list[str] = []
    for plan, place in zip(plans, cache_folders(plans, cache), strict=True):
        answers = answers_here(plan.search, interpreter=plan.interpreter)
        results[str(place)] = found = coverage(plan, CacheContents.open(place), answers)
        text += [f"{place}:"] if len(plans) > 1 else []
        text += lines(found)
        if not found.complete:
            text.append(_remedy(found, manifests, cache))
    data = [found.to_json() for found in results.values()]
    several = {"caches": dict(zip(results, data, strict=True))}
    emit(data[0] if len(data) == 1 else several, "\n".join(text), as_json)
    if not all(found.complete for found in results.values()):
        raise typer.Exit(1)


def lines(found: Coverage) -> Iterator[str]:
    """The result as text: what is missing, what is damaged, what the manifests do not ask for, and the counts."""
    for missing in found.missing:
        host = f", {missing.artifact.host}" if len(found.hosts) > 1 and missing.artifact.host else ""
        yield (
            f"missing: {missing.variant} ({missing.artifact.kind}{host}), asked for at {missing.variant.location}: "
            f"{missing.reason}"
        )
    yield from (f"damaged: {reason}" for reason in sorted(found.verified.damaged.values()))
    for op, number in found.unmeasured.items():
        yield f"missing: {count(number, 'measured time')} of {op}, which files under 'tuning' have"
    yield from (f"extra: {artifact}" for artifact in found.extra)
    for op, number in found.measured.items():
        yield f"extra: {count(number, 'measured time')} of {op}, which no file under 'tuning' has"
    read = found.verified
    yield f"checked {count(read.files, 'file')}, {size(read.stored)}, in {read.seconds:.2f} s"
    yield f"{found.present} of {count(found.present + len(found.missing), 'artifact')} there"


def _remedy(found: Coverage, manifests: list[Path], cache: Path) -> str:
    build = f"precast build {' '.join(map(str, manifests))} -o {cache}"
    if len(found.hosts) < 2:
        return f"build the missing ones: {build}"
    hosts = ", ".join(sorted({m.artifact.host for m in found.missing} - {""}) or found.hosts)
    return f"build again on a host of each kind ({hosts}) and join the caches with 'precast merge': {build}"
