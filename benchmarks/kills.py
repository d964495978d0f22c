"""Kills and stops at random moments of each kind of process that precast starts, and what they leave.

    python benchmarks/kills.py                          # 100 of each kind; an hour of one processor
    python benchmarks/kills.py linker fetch --number 9  # some kinds, fewer
    python benchmarks/kills.py --keep                   # keep the results in benchmarks/results

After each, the old or the new cache is whole, every record and note of the store can be read, and no process is left.
An undisturbed run then gives the bytes that it always gives, and leaves no temporary file. A run ends within its
limits, whichever process was interrupted. Exit status 1: one of these did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.kills.rounds import ANY, KINDS, MISSING, interrupt  # noqa: E402
from tests.helpers.kills.tally import Tally  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "kills.json"
KEPT = ("signals", "broken", "ends", "longest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"leave out for all: {', '.join(KINDS)}; or {ANY}")
    parser.add_argument("--number", type=int, default=100, help="how many kills and stops of each kind")
    parser.add_argument("--seed", type=int, default=1, help="the moments, the processes and the signals")
    parser.add_argument("--keep", action="store_true", help="keep the results")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each kind")
    options = parser.parse_args()
    if unknown := set(options.kinds) - {ANY, *KINDS}:
        parser.error(f"there is no kind {', '.join(sorted(unknown))}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    tallies: list[Tally] = []
    for kind in options.kinds or KINDS:
        if kind in MISSING:
            print(f"{kind}: not interrupted: no OCI registry is installed", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="precast-kills-") as folder:
            tallies.append(interrupt(kind, options.number, Path(folder), options.seed))
        one = tallies[-1]
        line = f"{one.kind}: {one.number} interrupted, {len(one.broken)} promises broken, longest {one.longest:.0f} s"
        print(json.dumps(one.to_json()) if options.json else "\n  ".join([line, *one.broken]), flush=True)
    if options.keep:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept |= {one.kind: {name: v for name, v in one.to_json().items() if name in KEPT} for one in tallies}
        RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    sys.exit(any(one.broken for one in tallies))


if __name__ == "__main__":
    main()
