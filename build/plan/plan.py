"""The plan: every variant that the manifests list, in a fixed order, with everything that its build needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precast.build.errors import Location, ManifestError, ManifestErrors
from precast.build.gpu.profile import Profile, Profiles, profile_of
from precast.build.measurements.tuning_file import TuningFile
from precast.build.plan.describer import Described, Description, NotDescribed
from precast.build.plan.draft import (
    Refusals,
    SizeNames,
    Skipped,
    check_duplicates,
    check_problems,
    check_supported,
    chosen_targets,
    drafts_of,
    listed_once,
    on_each_gpu,
    ranked,
)
from precast.build.plan.entry import Entry
from precast.build.plan.manifest import Manifest
from precast.build.plan.matrix import Matrix, matrix_of
from precast.build.plan.variant import Variant
from precast.loader.contract.format.config import Key, Value
from precast.loader.contract.format.target import Target
from precast.loader.errors import TargetError

LIMIT = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPlan:
    """The entries of the index about an op, beside its artifacts."""

    keys: tuple[Key, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one build makes. ``search`` has the folders that workers import users' modules from."""

    name: str
    variants: tuple[Variant, ...]  # sorted by op, target and config; for several GPUs in the order of the profiles
    ops: Mapping[str, OpPlan]
    search: tuple[Path, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    profiles: Profiles = field(default_factory=Profiles)
    tuning: TuningFile = field(default_factory=TuningFile)  # measurements of its variants, for the index


def make_plan(
    manifests: Sequence[Manifest],
    described: Described,
    *,
    targets: Sequence[Target] = (),
    refusals: Refusals | None = None,
    size_names: SizeNames | None = None,
    name: str = "",
    profiles: Profiles | None = None,
) -> Plan:
    """Expand manifests into one plan, or raise ManifestError at the line that cannot be built.

    ``targets`` keeps only those targets. Without a ``name``, the plan has the first manifest's. ``profiles`` replace
    those that the manifests name for the same capability.
    """
    check_targets(manifests, targets)
    chosen = profiles.chosen if profiles else ()
    profiles = Profiles.named([n for m in manifests for n in m.profiles]).over(chosen)
    entries, matrices = _expanded(manifests, described)
    _check_functions(entries)
    _check_size(matrices, targets)
    drafts = listed_once(draft for matrix, d in matrices for draft in drafts_of(matrix, d, targets, profiles))
    check_duplicates(d.variant for d in drafts)
    drafts = ranked(drafts)
    supported, skipped = check_supported(drafts, refusals)
    if size_names:
        check_problems(supported, size_names)
    variants = [v for draft in supported for v in on_each_gpu(draft, profiles)]
    kept = {op for v in (*variants, *(s.variant for s in skipped)) for op in v.produces}
    _check_used(chosen, variants)
    return Plan(
        name=name or manifests[0].name,
        variants=tuple(sorted(variants, key=_order)),
        ops={op: plan for op, plan in sorted(_ops(matrices).items()) if op in kept},
        search=tuple(dict.fromkeys(folder for m in manifests for folder in m.search)),
        skipped=tuple(sorted(skipped, key=lambda s: _order(s.variant))),
        profiles=profiles,
    )


def _expanded(
    manifests: Sequence[Manifest], described: Described
) -> tuple[list[tuple[Entry, Description]], list[tuple[Matrix, Description]]]:
    """Every entry with its description, and its matrix; all wrong entries of a manifest are one error."""
    entries: list[tuple[Entry, Description]] = []
    matrices: list[tuple[Matrix, Description]] = []
    for manifest in manifests:
        errors = ManifestErrors()
        for entry in manifest.entries:
            with errors.collected():
                description = _description(entry, described)
                matrices.append((matrix_of(entry, description), description))
                entries.append((entry, description))
        errors.check()
    return entries, matrices


def _check_functions(entries: Iterable[tuple[Entry, Description]]) -> None:
    """Refuse two functions that compile one op: a caller could not tell which of them it gets."""
    first: dict[str, tuple[Entry, str]] = {}
    for entry, description in entries:
        before, source = first.setdefault(description.op, (entry, description.source))
        if source != description.source:
            raise ManifestError(
                f"op {description.op!r} is compiled by {description.source} here and by {source} at "
                f"{before.location}: give one of them another op",
                entry.location,
            )


def check_targets(manifests: Sequence[Manifest], targets: Sequence[Target]) -> None:
    """Raise TargetError for a target that is unknown, or that no entry lists."""
    targets_of_entries = {t for m in manifests for e in m.entries for t in e.targets}
    for target in targets:
        profile_of(target)
        if target not in targets_of_entries:
            listed = ", ".join(map(str, sorted(targets_of_entries)))
            raise TargetError(f"no manifest builds for {target}: choose one of {listed}, or add it to 'targets'")


def _check_used(profiles: Sequence[Profile], variants: Sequence[Variant]) -> None:
    targets = sorted({v.target for v in variants})
    for profile in profiles:
        if variants and not any(t.capability == profile.capability for t in targets):
            raise TargetError(
                f"{profile.name} has capability {profile.capability}, and this build is for "
                f"{', '.join(map(str, targets))}: remove its profile, or add a target that it can run"
            )


def _description(entry: Entry, described: Described) -> Description:
    description = described[entry.ref]
    if isinstance(description, NotDescribed):
        raise ManifestError(description.reason, entry.location)
    if entry.speed_only and description.declared:
        raise ManifestError(
            f"{description.source} declares its own 'speed_only': remove 'speed_only' here", entry.location
        )
    return description


def _check_size(matrices: Iterable[tuple[Matrix, Description]], targets: Sequence[Target]) -> None:
    """Refuse a plan that is too large before its lists are multiplied."""
    total = 0
    for matrix, _ in matrices:
        count = matrix.count * len(chosen_targets(matrix.entry, targets))
        total += count
        if total > LIMIT:
            raise ManifestError(
                f"the plan has more than {LIMIT} variants, {count} of them of {matrix.op!r} here: list fewer values",
                matrix.entry.location,
            )


def _ops(matrices: Iterable[tuple[Matrix, Description]]) -> dict[str, OpPlan]:
    """Every op and its keys; entries of one op must agree on them."""
    plans: dict[str, OpPlan] = {}
    locations: dict[str, Location] = {}
    for matrix, described in matrices:
        plan = OpPlan(keys=matrix.keys, doc=described.doc)
        for op in [f"{matrix.op}.{part}" for part in matrix.entry.parts or described.parts] or [matrix.op]:
            if plans.setdefault(op, plan).keys != plan.keys:
                raise ManifestError(
                    f"op {op!r} has different config keys here and at {locations[op]}: "
                    "rename one op, or give both the same 'tuned'",
                    matrix.entry.location,
                )
            locations.setdefault(op, matrix.entry.location)
    return plans


def _order(variant: Variant) -> tuple[Any, ...]:
    return (variant.op, variant.target, tuple(_sortable(v) for v in variant.config.values()), variant.parts)


def _sortable(value: Value) -> tuple[Any, ...]:
    """A sort key for values of any type: null, then numbers, texts and lists."""
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (3, tuple(map(_sortable, value)))
    if isinstance(value, str):
        return (2, value)
    return (1, value, type(value).__name__)
