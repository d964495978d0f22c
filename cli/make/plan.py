"""List every variant that a build would compile, and those that it would skip. It compiles nothing and writes no cache.

With --explain, the variants are looked up in the store.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.cli.shared import options
from precast.cli.shared.manifest_options import ManifestOptions
from precast.cli.shared.output import count, print_result, table
from precast.cli.shared.project import requested, store_folder
from precast.loader.contract.format.config import to_json
from precast.loader.contract.format.index import key_to_json

if TYPE_CHECKING:
    from precast.build.store.history import Verdict

_TOTALS = ("op", "target", "variants")

EXAMPLES = (
    "precast plan manifest.yaml",
    "precast plan manifest.yaml -t sm_100a --json",
    "precast plan manifest.yaml --explain",
)


def command(
    manifests: options.ManifestsOrProject = None,
    target: options.Target = None,
    name: options.CacheName = "",
    retarget: options.Retarget = None,
    pass_env: options.PassEnv = None,
    emit: options.Emit = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="List whether each variant would be reused, or what has changed.")
    ] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.store.store import Store

    request = requested(manifests, None, target)
    plan = ManifestOptions(
        manifests=request.manifests,
        target=request.target,
        name=name,
        retarget=retarget,
        pass_env=pass_env,
        emit=emit,
    ).plan(notes=Store(store_folder(store)).notes)
    if explain:
        verdicts = explain_plan(plan, store)
        reused = sum(verdict.reused for verdict in verdicts)
        total = f"{count(len(verdicts) - reused, 'variant')} to build, {reused} reused"
        data = {"variants": [verdict.to_json() for verdict in verdicts]}
        print_result(data, "\n".join([*map(str, verdicts), total]), as_json)
    else:
        print_result(plan_to_json(plan), render(plan), as_json, [_TOTALS, *map(_head, plan.variants)])


def explain_plan(plan: Plan, path: Path | None) -> list[Verdict]:
    """Whether a build with the store at a path, or the user's store, would reuse each variant, and if not, why."""
    from precast.build.inputs.input_answers import answers_here
    from precast.build.inputs.sources import SourceDigests
    from precast.build.link.toolchain import find_toolchain
    from precast.build.store.history import explain
    from precast.build.store.key import key_parts, variant_key
    from precast.build.store.lookup import Lookup
    from precast.build.store.store import Store

    store = Store(store_folder(path))
    lookup = Lookup(store, answers_here(plan.search, store.notes))
    toolchain = find_toolchain()
    sources, verdicts = SourceDigests(plan.search, store.notes), []
    for variant in plan.variants:
        source = sources.digest(variant.source)
        key, parts = variant_key(variant, toolchain, source), key_parts(variant, toolchain, source)
        verdicts.append(explain(lookup, variant, key, parts, plan.profiles.of(variant.target, variant.profile)))
    return verdicts


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as ``--json`` prints it."""
    return {
        "name": plan.name,
        "ops": {op: {"doc": p.doc, "keys": [key_to_json(k) for k in p.keys]} for op, p in plan.ops.items()},
        "variants": [v.to_json() for v in plan.variants],
        "skipped": [{**s.variant.to_json(), "reason": s.reason} for s in plan.skipped],
    }


def render(plan: Plan) -> str:
    """The plan as text: each op's variants, the counts, what is skipped."""
    blocks = [_op(op, [v for v in plan.variants if v.op == op]) for op in sorted({v.op for v in plan.variants})]
    if plan.skipped:
        lines = [f"  {s.variant}: {s.reason}  [{s.variant.location}]" for s in plan.skipped]
        blocks.append("\n".join(["skipped:", *lines]))
    blocks.append(_counts(plan))
    return "\n\n".join(blocks)


def _op(op: str, variants: list[Variant]) -> str:
    """One table; entries of an op have the same keys."""
    first = variants[0]
    keys = list(first.config)
    rows = [[*(_cell(v, k) for k in keys), v.target, v.rank, "+".join(v.emit), v.location] for v in variants]
    return f"{', '.join(first.produces)}  ({first.source})\n{table(_head(first), rows)}"


def _head(variant: Variant) -> list[str]:
    """The head of the table of an op. A tuned key has a star."""
    keys = (f"{k}*" if k in variant.tuned else k for k in variant.config)
    return [*keys, "target", "rank", "emit", "location"]


def _cell(variant: Variant, key: str) -> object:
    value = to_json(variant.config[key])
    return str(value) if isinstance(value, bool) else "-" if value is None else value


def _counts(plan: Plan) -> str:
    counts = Counter((v.op, v.target) for v in plan.variants)
    rows = [[op, target, number] for (op, target), number in sorted(counts.items())]
    total = f"{plan.name}: {count(len(plan.variants), 'variant')}, {len(plan.skipped)} skipped"
    return f"{table(_TOTALS, rows)}\n\n{total}" if rows else total
