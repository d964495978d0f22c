"""Notebook card: all facts about one artifact, as tables, for ``_repr_html_``. Nothing else imports this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.config import config_text, python_text
from precast.loader.contract.format.description import describe_parts, describe_symbols
from precast.loader.markup import Markup, element, page, table
from precast.loader.resolve.evidence import CHECK, EMULATION, outcome

if TYPE_CHECKING:
    from precast.loader.contract.format.artifact import Artifact, Resources
    from precast.loader.contract.format.signature import Argument


def card_view(op: str, artifact: Artifact, cache: str, doc: str = "", state: str = "") -> str:
    """One artifact: what it is, what it takes, what it uses, and the line of a program that gets it.

    Parameters
    ----------
    op, artifact
        What to show.
    cache
        The name of the cache that it is in.
    doc
        The author's docstring.
    state
        Whether it can be launched here, if the caller knows.
    """
    title = f"{op} {config_text(artifact.config)} for {artifact.target}"
    takes = table("arguments, in call order", ("name", "type", "must be"), map(_argument, artifact.signature.passed))
    return page(
        *([element("p", doc.strip())] if doc.strip() else []),
        table(title, (), [row for row in _facts(artifact, cache, state) if row[1]]),
        takes,
        *([element("p", f"where {'; '.join(symbols)}")] if (symbols := describe_symbols(artifact.signature)) else []),
        *_resources(artifact.resources),
        element("pre", _get_line(op, artifact)),
    )


def _facts(artifact: Artifact, cache: str, state: str) -> Iterator[tuple[str, object]]:
    host = f", for {artifact.host.arch} with glibc {artifact.host.glibc}" if artifact.host else ""
    yield "here", state
    yield "cache", cache
    yield "key", artifact.key[:12]
    yield "kind", f"{artifact.kind}{host}"
    yield "size", f"{artifact.blob.size} bytes, {artifact.blob.stored} of them stored"
    yield "compiled by", artifact.provenance.get("function", "")
    yield "assumes", _assumed(artifact)
    yield "verified", _verified(artifact.evidence)


def _assumed(artifact: Artifact) -> str:
    needs = artifact.assumes.needs if artifact.assumes else {}
    return ", ".join(f"{name} {value}" for name, value in sorted(needs.items()))


def _verified(evidence: Iterable[Mapping[str, Any]]) -> str:
    return (
        "; ".join(sorted({outcome(entry) for entry in evidence if entry.get("check") in (CHECK, EMULATION)})) or "never"
    )


def _argument(argument: Argument) -> tuple[object, ...]:
    kind, demands = describe_parts(argument)
    return argument.name, kind, ", ".join(demands)


def _get_line(op: str, artifact: Artifact) -> str:
    """The line of a program that gets this variant, on a machine without such a GPU, too."""
    return f"loader.get({op!r}, {python_text(artifact.config)}, target={str(artifact.target)!r})"


def _resources(used: Iterable[Resources]) -> list[Markup]:
    rows = [(kernel.registers, kernel.shared, kernel.stack + kernel.local, kernel.kernel) for kernel in used]
    head = ("registers", "shared memory", "spilled", "device kernel")
    return [table("resources", head, rows)] if rows else []
