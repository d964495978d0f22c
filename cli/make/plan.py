"""Say what a build would make: every variant, and what is skipped and why. Nothing is compiled or written.

With --from-requests it writes the manifest of what a program asked for.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.build.toolchains.plans import plans_of_files
from precast.cli.shared.emitted import Emit, emitted
from precast.cli.shared.find_links import FindLinks, Offline, toolchains_from
from precast.cli.shared.output import count, emit, table, tell
from precast.cli.shared.pass_env import PassEnv, passed
from precast.cli.shared.retarget import Retarget
from precast.cli.shared.toolchain_text import toolchain_text, toolchain_to_json
from precast.loader.contract.format.config import to_json
from precast.loader.contract.format.index import key_to_json
from precast.loader.contract.format.patterns import CACHE_NAME
from precast.loader.contract.format.target import Target

if TYPE_CHECKING:
    from precast.build.store.history import Verdict


def command(
    manifests: Annotated[
        list[Path] | None, typer.Argument(metavar="MANIFEST...", help="The manifests, as one plan.", show_default=False)
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Only this target; of requests, for this one. May be repeated."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The cache's name, instead of the first manifest's.")] = "",
    from_requests: Annotated[
        list[Path] | None,
        typer.Option(
            "--from-requests",
            metavar="FILE",
            help="Print the manifest of what this file of PRECAST_REQUESTS asks for; may be repeated.",
        ),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="missing|used", help="Of the requests, only these; both, if left out.")
    ] = "",
    grid: Annotated[
        bool, typer.Option("--grid", help="Of the requests, print the problems to measure, in place of a manifest.")
    ] = False,
    retarget: Retarget = None,
    pass_env: PassEnv = None,
    emits: Emit = None,
    find_links: FindLinks = None,
    offline: Offline = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each variant whether it is reused, or what has changed.")
    ] = False,
    store: Annotated[Path | None, typer.Option("--store", help="The store to look into, with --explain.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Say what a build would make: every variant, and what is skipped and why. Nothing is compiled or written."""
    if from_requests:
        _from_requests(from_requests, manifests, target or [], name, only, grid, json)
        return
    if only or grid:
        raise typer.BadParameter("--only and --grid are for requests: give --from-requests FILE")
    if not manifests:
        raise typer.BadParameter("there is nothing to plan: give a MANIFEST, or --from-requests FILE")
    toolchains = toolchains_from(find_links, offline, tell)
    plans = plans_of_files(
        manifests,
        toolchains=toolchains,
        targets=target or (),
        name=name,
        passed=passed(pass_env),
        emit=emitted(emits),
        retarget=retarget or (),
    )
    if explain:
        verdicts = [verdict for plan in plans for verdict in explain_plan(plan, store)]
        reused = sum(one.reused for one in verdicts)
        total = f"{count(len(verdicts) - reused, 'variant')} to build, {reused} reused"
        emit({"variants": [one.to_json() for one in verdicts]}, "\n".join([*map(str, verdicts), total]), json)
    else:
        several = {"plans": [plan_to_json(plan) for plan in plans]}
        emit(plan_to_json(plans[0]) if len(plans) == 1 else several, "\n\n".join(map(render, plans)), json)


def _from_requests(
    files: list[Path], manifests: list[Path] | None, targets: list[str], name: str, only: str, grid: bool, json: bool
) -> None:
    """Print the manifest, or the grid, of what a program asked for."""
    from precast.build.plan.recordings.requested_manifest import (
        ONLY,
        entries_of,
        grid_of,
        grid_text,
        manifest_of,
        read_request_files,
    )

    if manifests:
        raise typer.BadParameter("requests make a manifest: give MANIFEST or --from-requests, not both")
    if only and only not in ONLY:
        raise typer.BadParameter(f"--only {only}: write missing or used")
    named = name or "requested"
    if not CACHE_NAME.admits(named):
        raise typer.BadParameter(f"--name {named}: use lower-case letters, digits and single dashes")
    asked = [str(Target.parse(one)) for one in targets]
    requests, notes = read_request_files(files)
    for note in notes:
        tell(f"warning: {note}")
    problems = grid_of(requests)
    data: dict[str, Any] = {
        "problems": {
            op: [{"problem": problem, "count": number} for problem, number in rows] for op, rows in problems.items()
        }
    }
    if grid:
        emit(data, grid_text(problems), json)
        return
    text = manifest_of(requests, name=named, only=only or None, targets=asked)
    data["manifest"] = text
    data["entries"] = [
        {**one.wanted.to_json(), "targets": sorted(one.targets), "used": one.used, "missing": one.missing}
        for one in entries_of(requests, only=only or None, targets=asked)
    ]
    emit(data, text.rstrip("\n"), json)


def explain_plan(plan: Plan, path: Path | None) -> list[Verdict]:
    """Of each variant whether a build with the store at a path, or the user's, would reuse it, or why not."""
    from precast.build.compile.worker import answers_here
    from precast.build.inputs.sources import SourceDigests
    from precast.build.link.toolchain import find_toolchain
    from precast.build.store.history import explain
    from precast.build.store.key import key_parts, variant_key
    from precast.build.store.lookup import Lookup
    from precast.build.store.store import Store, default_store

    store = Store(path or default_store())
    lookup = Lookup(store, answers_here(plan.search, store.notes, plan.interpreter))
    toolchain = find_toolchain(plan.interpreter)
    sources, verdicts = SourceDigests(plan.search, store.notes, plan.interpreter), []
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
        **({"toolchain": toolchain_to_json(plan.interpreter)} if plan.interpreter.isolated else {}),
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
    """One table; entries of an op have the same keys. A tuned key has a star."""
    first = variants[0]
    keys = list(first.config)
    head = [*(f"{k}*" if k in first.tuned else k for k in keys), "target", "rank", "emit", "asked for at"]
    rows = [[*(_cell(v, k) for k in keys), v.target, v.rank, "+".join(v.emit), v.location] for v in variants]
    return f"{', '.join(first.produces)}  ({first.source})\n{table(head, rows)}"


def _cell(variant: Variant, key: str) -> object:
    value = to_json(variant.config[key])
    return str(value) if isinstance(value, bool) else "-" if value is None else value


def _counts(plan: Plan) -> str:
    counts = Counter((v.op, v.target) for v in plan.variants)
    rows = [[op, target, number] for (op, target), number in sorted(counts.items())]
    total = f"{plan.name}: {count(len(plan.variants), 'variant')}, {len(plan.skipped)} skipped"
    if plan.interpreter.isolated:
        total += f"\ntoolchain: {toolchain_text(dict(plan.interpreter.locked), plan.interpreter.version)}, "
        total += f"lock {plan.interpreter.lock[:12]}"
    return f"{table(['op', 'target', 'variants'], rows)}\n\n{total}" if rows else total
