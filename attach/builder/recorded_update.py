"""Recordings that are taken over after an upgrade of their libraries: each key that a build would still plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from precast.attach.builder.recorded_manifest import RecordedManifest, manifest_of, recorded_keys
from precast.attach.library import library_named
from precast.attach.recordings.provenance import SOURCE, VERSION
from precast.attach.recordings.recording import Recorded
from precast.build.disk.memo import Memo
from precast.build.errors import ManifestError
from precast.build.inputs.closure import Closures
from precast.build.plan.describer import Described
from precast.build.plan.description_cache import DescriptionCache
from precast.build.plan.manifest import Manifest, parse_manifest
from precast.build.plan.plan import make_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedRecording:
    """The keys with the guards of what is installed, and those that were left out, each with the reason."""

    kept: tuple[Recorded, ...]
    left_out: tuple[tuple[Recorded, str], ...]


def updated_recording(before: RecordedManifest, path: Path, notes: Memo | None = None) -> UpdatedRecording:
    """The keys of a recording that a build with the installed libraries would plan. What only a compilation shows, such
    as a call that has another key now, the build refuses. Raises NotInstalled where a library is missing."""
    planned = [*_planned(map(_guarded, before.recorded), before, path, notes)]
    return UpdatedRecording(
        kept=tuple(kernel for kernel, reason in planned if reason is None),
        left_out=tuple((kernel, reason) for kernel, reason in planned if reason is not None),
    )


def _guarded(kernel: Recorded) -> Recorded:
    """The key with the guard of the library that is installed."""
    guard = library_named(kernel.library).guard()
    config = {**kernel.config, VERSION: guard.version, SOURCE: guard.source}
    return Recorded(library=kernel.library, compile=kernel.compile, config=config, call=kernel.call)


def _planned(
    kernels: Iterable[Recorded], before: RecordedManifest, path: Path, notes: Memo | None
) -> Iterator[tuple[Recorded, str | None]]:
    """Each key with the reason why a build would not plan it, or None."""
    text = manifest_of(kernels, name=before.name, targets=before.targets)
    manifest = parse_manifest(text.encode(), path)
    closures = Closures.here(manifest.search, notes)
    with DescriptionCache(manifest.search, manifest.targets[0], notes=notes, closures=closures) as descriptions:
        described = descriptions.describe([entry.ref for entry in manifest.entries])
        for entry in manifest.entries:
            alone = replace(manifest, entries=(entry,))
            (kernel,) = recorded_keys(alone)
            yield kernel, _refusal(alone, described, descriptions)


def _refusal(manifest: Manifest, described: Described, descriptions: DescriptionCache) -> str | None:
    try:
        make_plan([manifest], described, refusals=descriptions.refusals)
    except ManifestError as error:
        return error.message
    return None
