"""The plan: every variant that the manifests list, in a fixed order, with everything that its build needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from precast.build.errors import Location, ManifestError, ManifestErrors
from precast.build.gpu.profile import Profile, Profiles, profile_of
from precast.build.measurements.tuning_file import TuningFile
from precast.build.plan.description import Described, Description, NotDescribed
from precast.build.plan.entry import Entry
from precast.build.plan.manifest import Manifest
from precast.build.plan.matrix import Matrix, matrix_of
from precast.build.plan.variant import Variant, identity
from precast.loader.contract.format.config import Key, Value, canonical, suggest, to_json
from precast.loader.contract.format.target import Target
from precast.loader.contract.format.target_pattern import admitted
from precast.loader.errors import TargetError

LIMIT = 200_000
_SHOWN = 10

Refusals = Callable[[Sequence["Variant"]], Sequence["str | None"]]
"""For each variant, the reason why its kernel's ``supports`` refuses it, or None."""

SizeNames = Callable[[Sequence["Variant"]], Sequence["frozenset[str]"]]
"""For each variant, the names of the sizes in its kernel's problems; none if it declares no problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPlan:
    """The entries of the index about an op, beside its artifacts."""

    keys: tuple[Key, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A listed variant that cannot be built, in an entry with ``skip_unsupported: true``."""

    variant: Variant
    reason: str


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
    drafts = _once(draft for matrix, d in matrices for draft in _drafts(matrix, d, targets, profiles))
    _check_duplicates(d.variant for d in drafts)
    drafts = _ranked(drafts)
    supported, skipped = _check_supported(drafts, refusals)
    if size_names:
        _check_problems(supported, size_names)
    variants = [v for draft in supported for v in _on_each_gpu(draft, profiles)]
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


@dataclass(frozen=True, slots=True)
class _Draft:
    variant: Variant
    entry: Entry
    refusal: str | None = None


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
        count = matrix.count * len(_chosen(matrix.entry, targets))
        total += count
        if total > LIMIT:
            raise ManifestError(
                f"the plan has more than {LIMIT} variants, {count} of them of {matrix.op!r} here: list fewer values",
                matrix.entry.location,
            )


def _chosen(entry: Entry, targets: Sequence[Target]) -> tuple[Target, ...]:
    return tuple(t for t in entry.targets if not targets or t in targets)


def _drafts(matrix: Matrix, described: Description, targets: Sequence[Target], profiles: Profiles) -> Iterator[_Draft]:
    entry = matrix.entry
    tuned = tuple(k.name for k in matrix.keys if k.tuned)
    rows = tuple(matrix.rows())
    for target in _chosen(entry, targets):
        refusal = None
        if not admitted(described.targets, target):
            refusal = f"its kernel is for {', '.join(described.targets)}{_newer(described.targets, target)}"
        environment = entry.environment(target, profiles.of(target))
        for row in rows:
            variant = Variant(
                op=described.op,
                source=described.source,
                config=row.config,
                target=target,
                location=row.at,
                tuned=tuned,
                emit=entry.emit,
                env=environment,
                inputs=entry.inputs,
                parts=entry.parts or described.parts,
                speed_only=described.speed_only or entry.speed_only,
                imports=described.imports,
                registered=entry.source is None,
            )
            yield _Draft(variant, entry, refusal)


def _on_each_gpu(draft: _Draft, profiles: Profiles) -> Iterator[Variant]:
    """The variant for each GPU that its target is built for. It has the GPU's name if there are several."""
    variant, entry = draft.variant, draft.entry
    several = profiles.all_of(variant.target)
    for profile in (gpu for gpu in several if not entry.gpus or gpu.name in entry.gpus):
        yield replace(
            variant,
            profile=profile.name if len(several) > 1 else "",
            env=entry.environment(variant.target, profile),
            assumed=entry.assumed(profile),
        )


def _newer(declared: Sequence[str], target: Target) -> str:
    """What an author may have meant who declared a plain target: it admits no newer GPU without its ``+``.

    >>> _newer(["sm_90"], Target.parse("sm_100a")), _newer(["sm_90a"], Target.parse("sm_100a"))
    ("; declare 'sm_90+' if it is right on newer GPUs, too", '')
    """
    older = [text for text in declared if text[-1].isdigit() and Target.parse(text).capability < target.capability]
    return f"; declare '{older[-1]}+' if it is right on newer GPUs, too" if older else ""


def _once(drafts: Iterable[_Draft]) -> list[_Draft]:
    """Each key of an attached library once, also where several files list it: models share kernels."""
    first: dict[str, Variant] = {}
    kept = []
    for draft in drafts:
        variant = draft.variant
        other = first.setdefault(variant.identity, variant)
        again = variant.attached and variant.location.file != other.location.file
        if not again or replace(variant, location=other.location) != other:
            kept.append(draft)
    return kept


def _check_duplicates(variants: Iterable[Variant]) -> None:
    seen: dict[str, Location] = {}
    for variant in variants:
        for op in variant.produces:
            first = seen.setdefault(identity(op, variant), variant.location)
            if first is not variant.location:
                raise ManifestError(f"{variant} is listed twice, first at {first}: remove one", variant.location)


def _ranked(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Count each variant among those that differ from it in tuned keys only, in the order written."""
    seen: Counter[bytes] = Counter()
    ranked = []
    for draft in drafts:
        variant = draft.variant
        meaning = {name: to_json(value) for name, value in variant.config.items() if name not in variant.tuned}
        group = canonical([variant.op, meaning, str(variant.target)])
        ranked.append(replace(draft, variant=replace(variant, rank=seen[group])))
        seen[group] += 1
    return ranked


def _check_supported(drafts: Sequence[_Draft], refusals: Refusals | None) -> tuple[list[_Draft], list[Skipped]]:
    """The supported drafts, and those that an entry allows to be skipped. Any other refusal is an error."""
    open_ = [d.variant for d in drafts if d.refusal is None]
    reasons = iter(refusals(open_) if refusals else [None] * len(open_))
    checked = [d if d.refusal else replace(d, refusal=next(reasons)) for d in drafts]
    refused = [d for d in checked if d.refusal]
    errors = [d for d in refused if not d.entry.skip_unsupported]
    if errors:
        lines = [f"{d.variant.location}: {d.variant} cannot be built: {d.refusal}" for d in errors[1:_SHOWN]]
        more = [f"and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
        raise ManifestError(
            "\n".join(
                [
                    f"{errors[0].variant} cannot be built: {errors[0].refusal}",
                    *lines,
                    *more,
                    "exclude it, or drop the target; or add 'skip_unsupported: true' to its entry to skip it",
                ]
            ),
            errors[0].variant.location,
        )
    return [d for d in checked if not d.refusal], [
        Skipped(variant=d.variant, reason=d.refusal) for d in refused if d.refusal
    ]


def _check_problems(drafts: Sequence[_Draft], size_names: SizeNames) -> None:
    """Refuse a problem with a size that its kernel does not have. One variant of each entry is checked."""
    first = {id(d.entry): d for d in reversed(drafts) if d.entry.problems}
    representatives = list(first.values())
    for draft, names in zip(representatives, size_names([d.variant for d in representatives]), strict=True):
        for name in dict.fromkeys(name for problem in draft.entry.problems for name in problem):
            if names and name not in names:
                raise ManifestError(
                    f"the problems of {draft.variant.op!r} have no size {name!r}{suggest(name, names)}",
                    draft.entry.problems_at or draft.entry.location,
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
