"""Compile the variants of manifests into a cache.

Exit status 1 means that some variants failed; the cache holds the others. With --watch, the files that the variants
are made of are watched, and each round prints one line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Option

from precast.cli.shared import options
from precast.cli.shared.builds.display import print_report
from precast.cli.shared.builds.run import BuildRequest
from precast.cli.shared.manifest_options import ManifestOptions
from precast.cli.shared.output import print_message
from precast.cli.shared.project import requested, store_folder, worker_count
from precast.cli.shared.verbosity import verbosity

if TYPE_CHECKING:
    from precast.build.gpu.profile import Profiles
    from precast.build.store.store import Store

_ADDRESS = re.compile(r"([a-z]+://)?[^/\s:]+:[0-9]{1,5}", re.ASCII)
# More than this is a mistake, and would overflow the system call that gets the value.
_LARGEST = {"--timeout": 7 * 24 * 3600, "--memory": 1 << 30}


class Kept(str, Enum):
    """What a cache may keep beside its kernels."""

    ptx = "ptx"


EXAMPLES = (
    "precast build",
    "precast build --watch",
    "precast build manifest.yaml -o cache",
)


def command(
    manifests: options.ManifestsOrProject = None,
    output: options.OutputOrProject = None,
    jobs: options.Jobs = None,
    target: options.Target = None,
    name: options.CacheName = "",
    store: options.Store = None,
    shard: Annotated[
        str, Option(help="Build only the I-th of N parts; 'precast merge' joins them.", metavar="I/N")
    ] = "",
    executor: Annotated[Literal["local", "dask"], Option(help="Compile here, or on a Dask cluster.")] = "local",
    scheduler: Annotated[str, Option(help="The Dask scheduler, such as tcp://10.0.0.5:8786.", metavar="ADDRESS")] = "",
    remote_cache: Annotated[
        str,
        Option(
            help="A store that machines share: s3://, gs://, file://...", envvar="PRECAST_REMOTE_CACHE", metavar="URL"
        ),
    ] = "",
    remote_read_only: Annotated[
        bool, Option("--remote-read-only", help="Read the shared store, and write nothing into it.")
    ] = False,
    profile: options.Profile = None,
    profile_from_device: Annotated[
        bool, Option("--profile-from-device", help="Build for this machine's GPU, where kernels query its properties.")
    ] = False,
    retarget: options.Retarget = None,
    pass_env: options.PassEnv = None,
    twice: Annotated[
        bool, Option("--twice", help="Compile every variant twice, and fail those whose objects differ.")
    ] = False,
    emit: options.Emit = None,
    dictionary: Annotated[
        Path | None,
        Option(
            help="Compress with the dictionary of this cache, so that unchanged artifacts keep their bytes.",
            metavar="CACHE",
        ),
    ] = None,
    keep: Annotated[
        Kept | None, Option("--keep", help="Keep the PTX in the cache, for 'precast verify --emulate'.")
    ] = None,
    timeout: options.Timeout = 600.0,
    memory: Annotated[
        int, Option(min=0, help="MiB for one worker; 0 means its share of the free memory.", metavar="MIB")
    ] = 0,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Stop at the first failure, and write no cache.")] = False,
    watch: Annotated[bool, Option("--watch", help="Build again whenever an input changes, until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, Option("--json", help="Print events as JSON, one object per line; the last is the report.")
    ] = False,
) -> None:
    from precast.build.build_run import Options
    from precast.build.cache.compress import dictionary_of
    from precast.build.compile.cluster import Cluster
    from precast.build.plan.shard import Shard

    _check_largest({"--timeout": timeout, "--memory": memory})
    _check_scheduler(executor, scheduler)

    def request() -> BuildRequest:
        chosen = requested(manifests, output, target)
        return BuildRequest(
            manifests=ManifestOptions(
                manifests=chosen.manifests,
                target=chosen.target,
                name=name,
                retarget=retarget,
                pass_env=pass_env,
                emit=emit,
            ),
            output=chosen.folder,
            shard=Shard.parse(shard) if shard else None,
            profiles=_profiles(profile or (), chosen.target or (), from_device=profile_from_device),
            store=_open_store(store, remote_cache, read_only=remote_read_only),
            options=Options(
                jobs=worker_count(jobs),
                seconds=timeout,
                memory=memory * (1 << 20) or None,
                fail_fast=fail_fast,
                executor=Cluster(scheduler) if scheduler else None,
                dictionary=dictionary_of(dictionary) if dictionary else None,
                keep_ptx=bool(keep),
                twice=twice,
            ),
            as_json=as_json,
            project=chosen.project.file if chosen.project is not None else None,
            quiet=watch,
        )

    if watch:
        from precast.cli.shared.builds.rounds import Watch

        Watch(request, verbose=verbosity.verbose, as_json=as_json).run()
    result = request().run()
    print_report(*result, as_json=as_json, verbose=verbosity.verbose)
    if not result.report.complete:
        raise typer.Exit(1)


def _check_largest(values: Mapping[str, float]) -> None:
    for option, value in values.items():
        if not value <= _LARGEST[option]:  # nan is not
            raise typer.BadParameter(f"{option} is at most {_LARGEST[option]}")


def _check_scheduler(executor: str, scheduler: str) -> None:
    if (executor == "dask") != bool(scheduler):
        raise typer.BadParameter("--executor dask and --scheduler ADDRESS go together")
    if scheduler and not _ADDRESS.fullmatch(scheduler):
        raise typer.BadParameter(f"--scheduler: {scheduler!r} is not an address: write it like tcp://10.0.0.5:8786")


def _profiles(names: Sequence[str], targets: Sequence[str], *, from_device: bool) -> Profiles:
    """The GPUs that kernels may query. A target without a known GPU is refused before any kernel is imported."""
    from precast.build.gpu.profile import Profiles
    from precast.loader.contract.format.target import Target

    profiles = Profiles.named(names)
    if from_device:
        from precast.build.gpu.measure import measure

        profiles = Profiles().over((*profiles.chosen, measure()))
    for target in targets:
        profiles.of(Target.parse(target))
    return profiles


def _open_store(path: Path | None, remote_cache: str, *, read_only: bool) -> Store:
    """The store at a path, or the user's store, with the shared store behind it if there is one."""
    from precast.build.disk.output_folder import nearest_folder
    from precast.build.store.store import Store

    def warn(text: str) -> None:
        print_message(f"warning: {text}")

    path = store_folder(path)
    nearest_folder(path)  # if the path is a file, this fails before anything is compiled
    if not remote_cache:
        return Store(path, warn)
    from precast.build.satellites import satellite

    remote = satellite("precast.publish.remote")
    if not remote.is_supported(remote_cache):
        scheme = remote_cache.partition("://")[0]
        raise typer.BadParameter(f"--remote-cache: {scheme}:// is not a supported scheme: use s3://, gs:// or file://")
    return Store(path, warn, remote.Remote(remote_cache, warn, read_only=read_only))
