"""Build the artifacts of a cache again, and compare the bytes.

Exit status 1 means that some artifacts differ, or are in the cache and in no manifest; they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.manifest_options import ManifestOptions
from precast.cli.shared.output import count, print_message, print_result
from precast.cli.shared.progress import Progress
from precast.cli.shared.project import requested_with_cache, store_folder, worker_count

if TYPE_CHECKING:
    from precast.measure.comparison.reproduce import Reproduction

EXAMPLES = ("precast reproduce manifest.yaml cache --sample 20",)


def command(
    paths: options.ManifestsAndCache = None,
    sample: Annotated[
        int, typer.Option(min=0, help="Build only this many variants, drawn at random; 0 means all.", metavar="N")
    ] = 0,
    seed: Annotated[
        str, typer.Option(help="The seed that draws the sample; by default the cache's digest.", metavar="SEED")
    ] = "",
    jobs: options.Jobs = None,
    profile: options.Profile = None,
    pass_env: options.PassEnv = None,
    timeout: options.Timeout = 600.0,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.compile.executor import Local
    from precast.build.gpu.profile import Profiles
    from precast.build.store.store import Store
    from precast.measure.comparison.key_parts import KeyParts
    from precast.measure.comparison.reproduce import reproduce

    request = requested_with_cache(paths, None)
    reading = ManifestOptions(
        manifests=request.manifests,
        target=request.target,
        pass_env=pass_env,
    )
    plan = reading.plan(Profiles.named(profile or ()))
    executor = Local(worker_count(jobs))
    with Progress(min(sample, len(plan.variants)) or len(plan.variants)) as progress:
        result = reproduce(
            plan,
            request.folder,
            executor=executor,
            sample=sample or None,
            seed=seed,
            seconds=timeout,
            parts=KeyParts(Store(store_folder(store))),
            show=lambda variant: progress.step(str(variant)),
        )
    if not (result.same or result.different):
        print_message(f"nothing was compared: the manifests list no artifact of {request.folder}")
    print_result(result.to_json(), "\n".join(lines_of(result)), as_json)
    if not (result.holds and result.same):
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
