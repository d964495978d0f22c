"""Notebook views: decisions, variants, ops and caches as tables, for ``_repr_html_``. Nothing else imports this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from precast.loader.contract.format.config import config_text
from precast.loader.markup import Markup, element, escaped, page, table

if TYPE_CHECKING:
    from precast.loader.resolve.candidate import Candidate
    from precast.loader.resolve.discover import DiscoveredCache

_VARIANT = ("config", "target", "kind", "key", "cache")


def decision_view(
    title: str, rows: Iterable[tuple[str, Candidate, str]], count: int, notes: Iterable[str], missing: str
) -> str:
    """A whole decision.

    Parameters
    ----------
    title
        The request and the machine.
    rows
        Each candidate, with the verdict and the reason.
    count
        How many rows there are.
    notes
        Further remarks.
    missing
        How to build the missing variant; empty where one was taken.
    """
    cells = ((_mark(verdict), *_variant(candidate), why) for verdict, candidate, why in rows)
    drawn = table(title, ("", *_VARIANT, "why"), cells, count) if count else element("p", f"{title}: no candidate")
    more = [element("p", f"note: {note}") for note in notes]
    return page(drawn, *more, *([element("pre", missing)] if missing else []))


def variants_view(variants: Sequence[Candidate]) -> str:
    """The variants of an op, a row each."""
    if not variants:
        return page(element("p", "no variants"))
    rows = ((*_variant(candidate), _resources(candidate), str(candidate.signature)) for candidate in variants)
    title = f"{variants[0].source.op.op}: {_number(len(variants), 'variant')}"
    return page(table(title, (*_VARIANT, "resources", "takes"), rows, len(variants)))


def ops_view(names: Sequence[str], caches: Iterable[DiscoveredCache]) -> str:
    """The ops, with how many artifacts each cache has of them."""
    labels: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for discovered in caches:
        for op, entry in discovered.index.ops.items() if discovered.index else ():
            labels.setdefault(op, []).append(discovered.label)
            counts[op] += entry.artifacts
    rows = ((op, counts[op], ", ".join(labels.get(op, ()))) for op in names)
    return page(table(_number(len(names), "op"), ("op", "artifacts", "caches"), rows, len(names)))


def caches_view(caches: Sequence[DiscoveredCache]) -> str:
    """The caches in the order in which they are searched, the broken ones with their error."""
    if not caches:
        return page(element("p", "no caches: install the wheel of one, or name its folder in PRECAST_CACHE_PATH"))
    head = ("cache", "found by", "ops", "index", "folder")
    return page(
        table(_number(len(caches), "cache"), head, (_cache_row(discovered) for discovered in caches), len(caches))
    )


def _cache_row(discovered: DiscoveredCache) -> tuple[object, ...]:
    if discovered.cache is None:
        state: tuple[object, object] = Markup(element("b", "broken: ") + escaped(discovered.error)), ""
    else:
        state = len(discovered.cache.index.ops), discovered.cache.digest[:12]
    return discovered.name, discovered.origin, *state, discovered.path or ""


def _variant(candidate: Candidate) -> tuple[object, ...]:
    artifact = candidate.artifact
    return config_text(artifact.config), artifact.target, artifact.kind, artifact.key[:12], candidate.cache


def _resources(candidate: Candidate) -> str:
    used = candidate.artifact.resources
    if not used:
        return ""
    spilled = max(kernel.local + kernel.stack for kernel in used)
    return f"{max(kernel.registers for kernel in used)} registers" + (f", {spilled} bytes spilled" if spilled else "")


def _mark(verdict: str) -> object:
    return element("b", verdict) if verdict == "taken" else verdict


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
