"""Build the artifacts of a cache again, and compare the bytes.

Exit status 1 means that some artifacts differ, or are in the cache and in no manifest; they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.manifest_options import ManifestOptions, manifests_and_cache
from precast.cli.shared.output import count, print_message, print_result_of_each
from precast.cli.shared.progress import Progress

if TYPE_CHECKING:
    from precast.build.results.reproduce import Reproduction


def command(
    paths: options.ManifestsAndCache,
    sample: Annotated[
        int, typer.Option(min=0, help="Build only this many variants, drawn at random; 0 means all.", metavar="N")
    ] = 0,
    seed: Annotated[str, typer.Option(help="The seed that draws the sample; by default the cache's digest.")] = "",
    jobs: options.Jobs = 0,
    profile: options.Profile = None,
    pass_env: options.PassEnv = None,
    hermetic: options.Hermetic = False,
    find_links: options.FindLinks = None,
    offline: options.Offline = False,
    timeout: options.Timeout = 600.0,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.compile.executor import Local
    from precast.build.gpu.profile import Profiles
    from precast.build.results.reproduce import reproduce
    from precast.build.store.made_of import KeyParts
    from precast.build.store.store import Store, default_store
    from precast.build.toolchains.plans import cache_folders

    manifests, cache = manifests_and_cache(paths)
    read = ManifestOptions(
        manifests=manifests, pass_env=pass_env, hermetic=hermetic, find_links=find_links, offline=offline
    )
    plans = read.plans(Profiles.named(profile or ()))
    executor = Local(jobs or None)
    results: dict[str, Reproduction] = {}
    with Progress(sum(min(sample, len(plan.variants)) or len(plan.variants) for plan in plans)) as progress:
        for plan, path in zip(plans, cache_folders(plans, cache), strict=True):
            results[str(path)] = result = reproduce(
                plan,
                path,
                executor=executor,
                sample=sample or None,
                seed=seed,
                seconds=timeout,
                parts=KeyParts(Store(store or default_store())),
                show=lambda variant: progress.step(str(variant)),
            )
            if not (result.same or result.different):
                print_message(f"nothing was compared: the manifests list no artifact of {path}")
    print_result_of_each(results, lines_of, as_json)
    if not all(result.holds and result.same for result in results.values()):
        raise typer.Exit(1)


def lines_of(result: Reproduction) -> Iterator[str]:
    """The result as text."""
    yield from (f"different: {name}: {how}" for name, how in result.different.items())
    yield from (f"in no manifest: {name}" for name in result.unasked)
    yield f"{count(len(result.same), 'artifact')} built again, byte for byte; {len(result.different)} different"
    if result.left_out:
        yield f"{count(result.left_out, 'variant')} not in the sample"
    if result.elsewhere:
        yield f"{count(result.elsewhere, 'artifact')} of other hosts: build those again there"
