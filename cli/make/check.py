"""Check that a cache has every variant of some manifests as a build would make it, and that no byte is damaged.

Every file of the cache is read. A cache for several hosts must have a variant for each of them, and for each GPU
that the manifests or --profile name. Exit status 1 means that some artifacts are missing, damaged, or built from
something that has changed since; they are listed, with the file that has changed.

With --engine and --model, the engine starts without a GPU, as in 'precast record', and recordings or caches are named
in place of manifests: the kernels that a server with these options could request, and none of them has, are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from precast.cli.shared import options
from precast.cli.shared.manifest_options import ManifestOptions
from precast.cli.shared.output import count, print_result, size
from precast.cli.shared.progress import waiting
from precast.cli.shared.project import requested_with_cache, store_folder
from precast.loader.errors import ConfigError

if TYPE_CHECKING:
    from precast.build.cache.coverage import Coverage

EXAMPLES = ("precast check manifest.yaml cache",)


def command(
    paths: options.ManifestsAndCache = None,
    target: options.Target = None,
    retarget: options.Retarget = None,
    pass_env: options.PassEnv = None,
    emit: options.Emit = None,
    profile: options.Profile = None,
    as_json: options.Json = False,
    engine: options.Engine = None,
    model: options.Model = None,
    tensor_parallel: options.TensorParallel = 1,
    engine_option: options.EngineOption = None,
) -> None:
    if engine is not None:
        from precast.build.satellites import satellite

        if retarget or pass_env or emit or profile or as_json:
            raise ConfigError("with --engine no manifest is planned: leave out all options but --target")
        check = satellite("precast.attach.builder.engine_check").check_engine
        options_of = {"tensor_parallel": tensor_parallel, "options": engine_option or ()}
        raise typer.Exit(check(engine, model, paths or [], target=target or [], **options_of))
    from precast.build.cache.contents import CacheContents
    from precast.build.cache.coverage import coverage
    from precast.build.cache.freshness import Decisions
    from precast.build.gpu.profile import Profiles
    from precast.build.inputs.input_answers import answers_here
    from precast.build.store.lookup import Lookup
    from precast.build.store.store import Store

    request = requested_with_cache(paths, target)
    store = Store(store_folder(None))
    plan = ManifestOptions(
        manifests=request.manifests,
        target=request.target,
        retarget=retarget,
        pass_env=pass_env,
        emit=emit,
    ).plan(Profiles.named(profile or ()), store.notes)
    with waiting(f"reading every file of {request.folder}"):
        lookup = Lookup(store, answers_here(plan.search, store.notes))
        contents = CacheContents.open(request.folder)
        result = coverage(plan, contents, lookup.answers, Decisions.of(plan, lookup))
    text = "\n".join([*lines(result), *_remedy(result, f"precast build{request.words}")])
    print_result(result.to_json(), text, as_json)
    if not result.complete:
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
