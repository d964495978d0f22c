"""Kills and stops at random moments of each kind of process that precast starts, and what they leave.

    python benchmarks/kills.py                          # 100 of each kind; an hour of one processor
    python benchmarks/kills.py linker fetch --number 9  # some kinds, fewer
    python benchmarks/kills.py --keep                   # keep the results in benchmarks/results
    python benchmarks/kills.py --page                   # write the table of docs/building.md from the kept results

After each, the old or the new cache is whole, every record and note of the store can be read, and no process is left.
An undisturbed run then gives the bytes that it always gives, and leaves no temporary file. A run ends within its
limits, whichever process was struck. Exit status 1: one of these did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.kills.blow import Blow  # noqa: E402
from tests.helpers.kills.rounds import ANY, KINDS, MISSING, strike  # noqa: E402
from tests.helpers.kills.tally import Tally  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "kills.json"
PAGE = ROOT / "docs" / "building.md"
BEGIN, END = "<!-- begin kills -->", "<!-- end kills -->"
KEPT = ("blows", "broken", "ends", "longest")
COLUMNS = [blow.value for blow in Blow]


def table(results: Mapping[str, Any]) -> str:
    """The table of the page.

    >>> print(table({"fetch": {"blows": {"SIGKILL": 3, "SIGTERM": 1}, "broken": [], "longest": 2.5}}))
    | process | SIGKILL | SIGTERM | SIGSTOP | SIGSTOP, then SIGCONT | broken promises | longest run |
    | --- | --- | --- | --- | --- | --- | --- |
    | fetch | 3 | 1 | 0 | 0 | 0 | 2 s |
    """
    names = ["process", *COLUMNS, "broken promises", "longest run"]
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    for kind in (kind for kind in KINDS if kind in results):
        one = results[kind]
        cells = [*(one["blows"].get(name, 0) for name in COLUMNS), len(one["broken"]), f"{one['longest']:.0f} s"]
        lines.append(f"| {kind} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def page() -> str:
    """The page with the table of the kept results."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(json.loads(RESULTS.read_text()))}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"leave out for all: {', '.join(KINDS)}; or {ANY}")
    parser.add_argument("--number", type=int, default=100, help="how many kills and stops of each kind")
    parser.add_argument("--seed", type=int, default=1, help="the moments, the processes and the signals")
    parser.add_argument("--keep", action="store_true", help="keep the results")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each kind")
    parser.add_argument("--page", action="store_true", help="write the page from the kept results, and nothing else")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page())
        return
    if unknown := set(options.kinds) - {ANY, *KINDS}:
        parser.error(f"there is no kind {', '.join(sorted(unknown))}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    tallies: list[Tally] = []
    for kind in options.kinds or KINDS:
        if kind in MISSING:
            print(f"{kind}: not struck: no OCI registry is installed", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="precast-kills-") as folder:
            tallies.append(strike(kind, options.number, Path(folder), options.seed))
        one = tallies[-1]
        line = f"{one.kind}: {one.number} struck, {len(one.broken)} promises broken, longest run {one.longest:.0f} s"
        print(json.dumps(one.to_json()) if options.json else "\n  ".join([line, *one.broken]), flush=True)
    if options.keep:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept |= {one.kind: {name: v for name, v in one.to_json().items() if name in KEPT} for one in tallies}
        RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    sys.exit(any(one.broken for one in tallies))


if __name__ == "__main__":
    main()
