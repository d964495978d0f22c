"""From manifest files to a plan: read them, describe their kernels, expand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from precast.build.disk.memo import Memo
from precast.build.errors import Location, ManifestError
from precast.build.gpu.profile import Profiles, profile_of
from precast.build.inputs.closure import Closures, declared_names
from precast.build.inputs.roots import Roots
from precast.build.measurements.join import join
from precast.build.measurements.tuning_file import LIMIT, TuningFile
from precast.build.plan.description_cache import DescriptionCache
from precast.build.plan.entry_reader import EMITS
from precast.build.plan.manifest import Manifest, read_manifest
from precast.build.plan.plan import Plan, check_targets, make_plan
from precast.build.satellites import satellite
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError, TargetError

_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_manifests(
    paths: Sequence[Path],
    *,
    name: str = "",
    passed: Mapping[str, str] = _NOTHING,
    emit: Sequence[str] = (),
    retarget: Sequence[str] = (),
) -> list[Manifest]:
    """Read manifests that are built together; ``name`` is checked, and ``passed`` is added to every entry's env.

    What an entry's own ``env`` sets takes precedence over ``passed``. ``emit`` has the kinds of artifact, in place of
    those that the manifests name. ``retarget`` has texts such as ``sm_100a=sm_103a``: what the manifests list for the
    first target is planned for the second, and nothing else is.
    """
    if not paths:
        raise FormatError("no manifest is given: name at least one")
    if name and not CACHE_NAME.admits(name):
        raise FormatError(f"{name!r} is not a name: use lower-case letters, digits and single dashes")
    moved = read_retarget(retarget)
    manifests = [_emitting(_passing(read_manifest(path), passed), emit) for path in paths]
    return retargeted(manifests, moved) if moved else manifests


def plan_of(
    manifests: Sequence[Manifest],
    *,
    targets: Sequence[Target] = (),
    name: str = "",
    profiles: Profiles | None = None,
    notes: Memo | None = None,
) -> Plan:
    """The plan of manifests. Their programs are run first, without a GPU.

    ``profiles`` are the GPUs to build for, in place of
    those that the manifests name. A kernel that ``notes`` describe is not imported.
    """
    search = tuple(dict.fromkeys(folder for m in manifests for folder in m.search))
    check_targets(manifests, targets)
    assumed = Profiles.named([n for m in manifests for n in m.profiles]).over(profiles.chosen if profiles else ())
    closures = Closures.here(search, notes)
    manifests = [_with_names(manifest, closures.answers.roots) for manifest in manifests]
    if any(entry.program for m in manifests for entry in m.entries):
        recorder = satellite("precast.attach.builder.program_recorder")
        manifests = recorder.record_programs(
            manifests, targets=targets, profiles=assumed, notes=notes, closures=closures
        )
    entries = [e for m in manifests for e in m.entries]
    first = targets[0] if targets else entries[0].targets[0]
    with DescriptionCache(search, first, notes=notes, closures=closures) as descriptions:
        described = descriptions.describe([e.ref for e in entries])
        plan = make_plan(
            manifests,
            described,
            targets=targets,
            refusals=descriptions.refusals,
            size_names=descriptions.size_names,
            name=name,
            profiles=profiles,
        )
    return replace(plan, tuning=read_tuning(manifests))


def plan_of_files(
    paths: Sequence[Path],
    *,
    targets: Sequence[str] = (),
    name: str = "",
    profiles: Profiles | None = None,
    notes: Memo | None = None,
    passed: Mapping[str, str] = _NOTHING,
    emit: Sequence[str] = (),
    retarget: Sequence[str] = (),
) -> Plan:
    """The plan of manifest files, for some ``targets`` or for all that they name.

    The other arguments are those of ``read_manifests`` and ``plan_of``.
    """
    manifests = read_manifests(paths, name=name, passed=passed, emit=emit, retarget=retarget)
    return plan_of(manifests, targets=tuple(map(Target.parse, targets)), name=name, profiles=profiles, notes=notes)


def read_retarget(texts: Sequence[str]) -> dict[Target, Target]:
    """Read ``sm_100a=sm_103a``: the target to build for, by the target that manifests list.

    >>> {str(listed): str(wanted) for listed, wanted in read_retarget(["sm_100a=sm_103a"]).items()}
    {'sm_100a': 'sm_103a'}
    """
    moved: dict[Target, Target] = {}
    for text in texts:
        listed, _, replacement = text.partition("=")
        if not replacement:
            raise TargetError(f"{text!r} does not name two targets: write LISTED=WANTED, such as sm_100a=sm_103a")
        before, after = Target.parse(listed), Target.parse(replacement)
        profile_of(after)
        if before in moved or after in moved.values():
            raise TargetError(f"{text!r} names a target that another --retarget names: name each target once")
        moved[before] = after
    return moved


def retargeted(manifests: Sequence[Manifest], moved: Mapping[Target, Target]) -> list[Manifest]:
    """Manifests with other targets in place of those that they list. Unsupported variants are skipped and reported.

    Entries without any of the listed targets are left out, and so are measurements, which are of the listed targets.
    """
    listed = {target for m in manifests for e in m.entries for target in e.targets}
    for target in moved:
        if target not in listed:
            alternatives = ", ".join(map(str, sorted(listed)))
            raise TargetError(f"no manifest builds for {target}: name one of {alternatives} before the '='")
    result = []
    for manifest in manifests:
        entries = tuple(
            replace(entry, targets=tuple(moved[t] for t in entry.targets if t in moved), skip_unsupported=True)
            for entry in manifest.entries
            if any(t in moved for t in entry.targets)
        )
        if entries:
            result.append(replace(manifest, entries=entries, targets=tuple(moved.values()), tuning=()))
    return result


def read_tuning(manifests: Sequence[Manifest]) -> TuningFile:
    """The files that manifests name under ``tuning``, joined; raises ManifestError at the name of a file."""
    return join(_read_tuning(*path) for path in dict.fromkeys(named for m in manifests for named in m.tuning))


def _read_tuning(path: Path, at: Location) -> TuningFile:
    try:
        with open(path, "rb") as file:
            return TuningFile.decode(file.read(LIMIT + 1))
    except OSError as error:
        reason = f"{path} cannot be read ({error.strerror}): run 'precast tune measure', or correct the path"
        raise ManifestError(reason, at) from None
    except FormatError as error:
        remedy = "" if error.remedy else ": correct it, or measure again"
        raise ManifestError(f"{path}: {error}{remedy}", at) from None


def _emitting(manifest: Manifest, emit: Sequence[str]) -> Manifest:
    kinds = tuple(kind for kind in EMITS if kind in emit)
    entries = tuple(replace(entry, emit=kinds) for entry in manifest.entries)
    return replace(manifest, entries=entries) if kinds else manifest


def _with_names(manifest: Manifest, roots: Roots) -> Manifest:
    """A manifest with names of inputs that are valid on any machine, in place of paths."""
    entries = (replace(entry, inputs=declared_names(entry.inputs, roots)) for entry in manifest.entries)
    return replace(manifest, entries=tuple(entries))


def _passing(manifest: Manifest, passed: Mapping[str, str]) -> Manifest:
    entries = (replace(entry, env=MappingProxyType({**passed, **entry.env})) for entry in manifest.entries)
    return replace(manifest, entries=tuple(entries)) if passed else manifest
