"""Check that a cache has every variant of some manifests as a build would make it, and that no byte is damaged.

Every file of the cache is read. A cache for several hosts must have a variant for each of them, and for each GPU
that the manifests or --profile name. Exit status 1 means that some artifacts are missing, damaged, or built from
something that has changed since; they are listed, with the file that has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from precast.cli.shared import options
from precast.cli.shared.manifest_options import ManifestOptions, manifests_and_cache
from precast.cli.shared.output import count, print_result_of_each, size

if TYPE_CHECKING:
    from precast.build.cache.coverage import Coverage


def command(
    paths: options.ManifestsAndCache,
    target: options.Target = None,
    retarget: options.Retarget = None,
    pass_env: options.PassEnv = None,
    hermetic: options.Hermetic = False,
    emit: options.Emit = None,
    find_links: options.FindLinks = None,
    offline: options.Offline = False,
    profile: options.Profile = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.cache.contents import CacheContents
    from precast.build.cache.coverage import coverage
    from precast.build.cache.freshness import Decisions
    from precast.build.gpu.profile import Profiles
    from precast.build.ipc.child_inputs import answers_here
    from precast.build.store.lookup import Lookup
    from precast.build.store.store import Store, default_store
    from precast.build.toolchains.plans import cache_folders

    manifests, cache = manifests_and_cache(paths)
    plans = ManifestOptions(
        manifests=manifests,
        target=target,
        retarget=retarget,
        pass_env=pass_env,
        hermetic=hermetic,
        emit=emit,
        find_links=find_links,
        offline=offline,
    ).plans(Profiles.named(profile or ()))
    results: dict[str, Coverage] = {}
    for plan, path in zip(plans, cache_folders(plans, cache), strict=True):
        store = Store(default_store())
        lookup = Lookup(store, answers_here(plan.search, store.notes, plan.interpreter))
        results[str(path)] = coverage(plan, CacheContents.open(path), lookup.answers, Decisions.of(plan, lookup))
    build = f"precast build {' '.join(map(str, manifests))} -o {cache}"
    print_result_of_each(results, lambda result: [*lines(result), *_remedy(result, build)], as_json)
    if not all(result.complete for result in results.values()):
        raise typer.Exit(1)


def lines(result: Coverage) -> Iterator[str]:
    """The result as text: what is missing, damaged and not in the manifests, then the counts."""
    for missing in result.missing:
        host = f", {missing.artifact.host}" if len(result.hosts) > 1 and missing.artifact.host else ""
        variant = missing.variant
        yield f"missing: {variant} ({missing.artifact.kind}{host}), listed at {variant.location}: {missing.reason}"
    yield from (f"damaged: {reason}" for reason in sorted(result.verified.damaged.values()))
    for op, number in result.unmeasured.items():
        yield f"missing: {count(number, 'measured time')} of {op}, from the files under 'tuning'"
    yield from (f"extra: {artifact}" for artifact in result.extra)
    for op, number in result.measured.items():
        yield f"extra: {count(number, 'measured time')} of {op}, not in any file under 'tuning'"
    read = result.verified
    yield f"checked {count(read.files, 'file')}, {size(read.stored)}, in {read.seconds:.2f} s"
    yield f"{result.present} of {count(result.present + len(result.missing), 'artifact')} present"


def _remedy(result: Coverage, build: str) -> Iterator[str]:
    if not result.complete and len(result.hosts) < 2:
        yield f"to build what is missing: {build}"
    elif not result.complete:
        hosts = ", ".join(sorted({m.artifact.host for m in result.missing} - {""}) or result.hosts)
        yield f"build again on a host of each kind ({hosts}) and join the caches with 'precast merge': {build}"
