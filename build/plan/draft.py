"""Drafts of a plan: the variants of its entries, while they are checked, counted and put on GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from precast.build.errors import Location, ManifestError
from precast.build.gpu.profile import Profiles
from precast.build.plan.describer import Description
from precast.build.plan.entry import Entry
from precast.build.plan.matrix import Matrix
from precast.build.plan.variant import Variant, identity
from precast.loader.contract.format.config import canonical, suggest, to_json
from precast.loader.contract.format.target import Target, admitted

_SHOWN = 10

Refusals = Callable[[Sequence["Variant"]], Sequence["str | None"]]
"""For each variant, the reason why its kernel's ``supports`` refuses it, or None."""

SizeNames = Callable[[Sequence["Variant"]], Sequence["frozenset[str]"]]
"""For each variant, the names of the sizes in its kernel's problems; none if it declares no problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A listed variant that cannot be built, in an entry with ``skip_unsupported: true``."""

    variant: Variant
    reason: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A variant, its entry, and the reason why its kernel cannot be built for its target, if it is known."""

    variant: Variant
    entry: Entry
    refusal: str | None = None


def chosen_targets(entry: Entry, targets: Sequence[Target]) -> tuple[Target, ...]:
    """The targets of an entry among these; all of them where none is named."""
    return tuple(t for t in entry.targets if not targets or t in targets)


def drafts_of(matrix: Matrix, described: Description, targets: Sequence[Target], profiles: Profiles) -> Iterator[Draft]:
    """A draft for each row of a matrix and target."""
    entry = matrix.entry
    tuned = tuple(k.name for k in matrix.keys if k.tuned)
    rows = tuple(matrix.rows())
    for target in chosen_targets(entry, targets):
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
            yield Draft(variant, entry, refusal)


def on_each_gpu(draft: Draft, profiles: Profiles) -> Iterator[Variant]:
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


def listed_once(drafts: Iterable[Draft]) -> list[Draft]:
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


def check_duplicates(variants: Iterable[Variant]) -> None:
    """Refuse a variant that is listed twice."""
    seen: dict[str, Location] = {}
    for variant in variants:
        for op in variant.produces:
            first = seen.setdefault(identity(op, variant), variant.location)
            if first is not variant.location:
                raise ManifestError(f"{variant} is listed twice, first at {first}: remove one", variant.location)


def ranked(drafts: Sequence[Draft]) -> list[Draft]:
    """Count each variant among those that differ from it in tuned keys only, in the order written."""
    seen: Counter[bytes] = Counter()
    counted = []
    for draft in drafts:
        variant = draft.variant
        meaning = {name: to_json(value) for name, value in variant.config.items() if name not in variant.tuned}
        group = canonical([variant.op, meaning, str(variant.target)])
        counted.append(replace(draft, variant=replace(variant, rank=seen[group])))
        seen[group] += 1
    return counted


def check_supported(drafts: Sequence[Draft], refusals: Refusals | None) -> tuple[list[Draft], list[Skipped]]:
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


def check_problems(drafts: Sequence[Draft], size_names: SizeNames) -> None:
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
