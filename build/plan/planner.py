"""From manifest files to a plan: read them, describe their kernels, expand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from precast.build.disk.memo import Memo
from precast.build.errors import Location, ManifestError
from precast.build.gpu.profile import Profiles, profile_of
from precast.build.interpreter import HERE, Interpreter
from precast.build.measurements.join import join
from precast.build.measurements.tuning_file import LIMIT, TuningFile
from precast.build.plan.describer import TIME_LIMIT
from precast.build.plan.description_cache import DescriptionCache
from precast.build.plan.manifest import EMITS, Manifest, read_manifest
from precast.build.plan.plan import Plan, check_targets, make_plan
from precast.build.plan.program_recorder import record_programs
from precast.loader.errors import FormatError, TargetError
from precast.loader.format.patterns import CACHE_NAME
from precast.loader.format.target import Target

_NOTHING: Mapping[str, str] = MappingProxyType({})


def plan_files(
    paths: Sequence[Path],
    *,
    targets: Sequence[str] = (),
    name: str = "",
    limit: float = TIME_LIMIT,
    profiles: Profiles | None = None,
    notes: Memo | None = None,
    passed: Mapping[str, str] = _NOTHING,
    emit: Sequence[str] = (),
    retarget: Sequence[str] = (),
) -> Plan:
    """The plan of some manifests together, which name no toolchain.

    ``limit`` is how many seconds importing their kernels may take. ``profiles`` are the GPUs to build for, in place of
    those that the manifests name. A kernel that ``notes`` describe is not imported. ``passed`` has variables for every
    entry; what an entry's own ``env`` sets comes before them. ``emit`` has the kinds of artifact, in place of
    those that the manifests name. ``retarget`` holds texts such as ``sm_100a=sm_103a``: what the manifests list for
    the first target is planned for the second, and nothing else is.
    """
    return plan_of(
        read_manifests(paths, name=name, passed=passed, emit=emit, retarget=retarget),
        targets=[Target.parse(t) for t in targets],
        name=name,
        limit=limit,
        profiles=profiles,
        notes=notes,
    )


def read_manifests(
    paths: Sequence[Path],
    *,
    name: str = "",
    passed: Mapping[str, str] = _NOTHING,
    emit: Sequence[str] = (),
    retarget: Sequence[str] = (),
) -> list[Manifest]:
    """Read manifests that are to be built together; ``name`` is checked, and ``passed`` added to every entry's env.

    ``emit`` has the kinds of artifact to make of all, in place of those that they name. ``retarget`` changes targets.
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
    limit: float = TIME_LIMIT,
    profiles: Profiles | None = None,
    notes: Memo | None = None,
    interpreter: Interpreter = HERE,
) -> Plan:
    """The plan of manifests that have been read. Their programs are run first, without a GPU.

    Kernels are described, and are to be compiled, by this ``interpreter``.
    """
    for one in manifests:
        if one.toolchain is not None and not interpreter.isolated:
            raise ManifestError("it names a toolchain, and is planned without one: report this", one.toolchain.location)
    search = tuple(dict.fromkeys(folder for m in manifests for folder in m.search))
    check_targets(manifests, targets)
    assumed = Profiles.named([n for m in manifests for n in m.profiles]).over(profiles.chosen if profiles else ())
    manifests = record_programs(
        manifests, targets=targets, profiles=assumed, limit=limit, notes=notes, interpreter=interpreter
    )
    entries = [e for m in manifests for e in m.entries]
    first = targets[0] if targets else entries[0].targets[0]
    with DescriptionCache(search, first, limit=limit, notes=notes, interpreter=interpreter) as descriptions:
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
    return replace(plan, tuning=read_tuning(manifests), interpreter=interpreter)


def read_retarget(texts: Sequence[str]) -> dict[Target, Target]:
    """Read ``sm_100a=sm_103a``: the target to build for, by the one that manifests list.

    >>> {str(listed): str(wanted) for listed, wanted in read_retarget(["sm_100a=sm_103a"]).items()}
    {'sm_100a': 'sm_103a'}
    """
    moved: dict[Target, Target] = {}
    for text in texts:
        listed, _, wanted = text.partition("=")
        if not wanted:
            raise TargetError(f"{text!r} names no two targets: write LISTED=WANTED, such as sm_100a=sm_103a")
        before, after = Target.parse(listed), Target.parse(wanted)
        profile_of(after)
        if before in moved or after in moved.values():
            raise TargetError(f"{text!r} names a target that another such option names: give each once")
        moved[before] = after
    return moved


def retargeted(manifests: Sequence[Manifest], moved: Mapping[Target, Target]) -> list[Manifest]:
    """Manifests with other targets in place of those that they list. What an op refuses there is skipped, and told.

    Entries for none of the listed targets are left out, and so are measurements, which are of the listed targets.
    """
    listed = {target for m in manifests for e in m.entries for target in e.targets}
    for target in moved:
        if target not in listed:
            known = ", ".join(map(str, sorted(listed)))
            raise TargetError(f"no manifest builds for {target}: name one of {known} before the '='")
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
    """What the files say that manifests name under ``tuning``, joined; raises ManifestError at the name of a file."""
    return join(_read_tuning(*one) for one in dict.fromkeys(named for m in manifests for named in m.tuning))


def _read_tuning(path: Path, at: Location) -> TuningFile:
    try:
        with open(path, "rb") as file:
            return TuningFile.decode(file.read(LIMIT + 1))
    except OSError as error:
        reason = f"{path} cannot be read ({error.strerror}): run 'precast tune measure', or correct the path"
        raise ManifestError(reason, at) from None
    except FormatError as error:
        raise ManifestError(f"{path}: {error}: correct it, or measure again", at) from None


def _emitting(manifest: Manifest, emit: Sequence[str]) -> Manifest:
    kinds = tuple(kind for kind in EMITS if kind in emit)
    entries = tuple(replace(entry, emit=kinds) for entry in manifest.entries)
    return replace(manifest, entries=entries) if kinds else manifest


def _passing(manifest: Manifest, passed: Mapping[str, str]) -> Manifest:
    entries = (replace(entry, env=MappingProxyType({**passed, **entry.env})) for entry in manifest.entries)
    return replace(manifest, entries=tuple(entries)) if passed else manifest
