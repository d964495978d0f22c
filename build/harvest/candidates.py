"""Candidates: the keys of manifests, which files of a cache are compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from precast.build.errors import ManifestError
from precast.build.gpu.profile import Profiles
from precast.build.plan.manifest import read_manifest
from precast.build.plan.program_recorder import record_programs
from precast.build.plan.recordings.recorded_manifest import recorded_keys
from precast.loader.attach import library_named
from precast.loader.contract.format.target import Target
from precast.loader.contract.recordings.provenance import SOURCE, VERSION
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.errors import ConfigError


def candidates_of(path: Path, target: Target) -> tuple[Recorded, ...]:
    """The keys that a manifest has for a target: recorded ones, and those that its calls and scripts request.

    They must be of the libraries that are installed here, since another version may name its files in another way.
    """
    manifest = read_manifest(path)
    entries = tuple(replace(entry, targets=(target,)) for entry in manifest.entries if target in entry.targets)
    if not entries:
        targets = ", ".join(map(str, manifest.targets))
        raise ConfigError(f"{path} is for {targets}: give one of them as --target, or name a manifest for {target}")
    chosen = replace(manifest, targets=(target,), entries=entries)
    (expanded,) = record_programs([chosen], targets=[target], profiles=Profiles(), notes=None)
    try:
        keys = recorded_keys(expanded)
    except ManifestError as error:
        raise ManifestError(
            "candidates are entries as 'precast record' writes them, and calls and scripts without 'env': remove this "
            "entry from the file",
            error.location,
        ) from None
    for key in keys:
        guard = library_named(key.library).guard()
        recorded = key.config.get(VERSION, guard.version), key.config.get(SOURCE, guard.source)
        if recorded != (guard.version, guard.source):
            raise ConfigError(
                f"{path} was recorded with {key.library} {recorded[0]}, and other files or another version are "
                "installed here: record it again"
            )
    return keys
