"""What pruning leaves, as ``precast tune --prune`` prints it: counts, and lines for the manifests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from precast.cli.shared.output import count, emit, size

if TYPE_CHECKING:
    from precast.build.plan.manifest import Manifest
    from precast.build.tuning.contest import Contest
    from precast.loader.resolve.cache import Cache


def tell_pruned(
    cache: Cache,
    manifests: Sequence[Manifest],
    found: Sequence[Contest],
    path: Path,
    *,
    within: float,
    smallest: bool,
    as_json: bool,
) -> None:
    """Say which candidates no measured problem needs, and print the lines that leave them out of the manifests."""
    from precast.build.measurements.fit import completed
    from precast.build.tuning.prune import exclusions, prune
    from precast.build.tuning.tuner import read_file

    file = completed(read_file(path), {op: cache.op(op).keys for op in cache.index.ops})
    pruned = prune(found, file, within=within, smallest=smallest)
    rows = exclusions(manifests, cache, pruned)
    dropped, stored = sum(len(one.dropped) for one in pruned), sum(one.stored for one in pruned)
    every = sum(len(one.contest.contestants) for one in pruned)
    lines = [
        f"# {one.contest}: {len(one.kept)} of {len(one.contest.contestants)} stay, by {count(one.problems, 'problem')}"
        for one in pruned
        if one.problems
    ]
    lines += rows
    lines.append(f"# {dropped} of {count(every, 'variant')} are not needed: {size(stored)} of the cache")
    data = {
        "contests": [one.to_json() for one in pruned],
        "exclude": rows,
        "dropped": dropped,
        "variants": every,
        "stored": stored,
    }
    emit(data, "\n".join(lines), as_json)
