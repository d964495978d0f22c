"""Find the candidates that no measured problem needs.

Prints 'exclude:' lines to copy into the manifests; nothing is changed. The author's first candidate always stays,
and so does a candidate without a measured time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result, size
from precast.measure.commands.shared import selection
from precast.measure.commands.shared.contests import CacheOption, Selection

EXAMPLES = (
    "precast tune prune manifest.yaml --cache cache",
    "precast tune prune manifest.yaml --cache cache --times h200.json --cover",
)


def command(
    manifests: selection.Manifests,
    cache: CacheOption,
    times: Annotated[
        Path | None,
        typer.Option("--times", help="The tuning file; by default the one in the manifests.", metavar="FILE"),
    ] = None,
    op: selection.Op = None,
    where: selection.Where = None,
    within: Annotated[
        float,
        typer.Option("--within", min=0, max=100, help="How close to the best time is close enough.", metavar="PERCENT"),
    ] = 2.0,
    cover: Annotated[bool, typer.Option("--cover", help="Keep only a small set that serves every problem.")] = False,
    as_json: options.Json = False,
) -> None:
    from precast.build.measurements.fit import completed
    from precast.measure.tuning.prune import exclusions, prune
    from precast.measure.tuning.tuner import read_file

    selection = Selection.read(manifests, cache, op, where)
    path, opened = selection.tuning_file("--times", times), selection.cache
    file = completed(read_file(path), {op: opened.op(op).keys for op in opened.index.ops})
    pruned = prune(selection.contests(lambda artifact: ""), file, within=within / 100, smallest=cover)
    excluded = exclusions(selection.manifests, opened, pruned)
    dropped, stored = sum(len(result.dropped) for result in pruned), sum(result.stored for result in pruned)
    total = sum(len(result.contest.contestants) for result in pruned)
    lines = [
        f"# {result.contest}: {len(result.kept)} of {len(result.contest.contestants)} stay, "
        f"judged by {count(result.problems, 'problem')}"
        for result in pruned
        if result.problems
    ]
    lines += excluded
    lines.append(f"# {dropped} of {count(total, 'variant')} can go, which saves {size(stored)}")
    data = {
        "contests": [result.to_json() for result in pruned],
        "exclude": excluded,
        "dropped": dropped,
        "variants": total,
        "stored": stored,
    }
    print_result(data, "\n".join(lines), as_json)
