"""What the loader costs, beside what it replaces, in one run.

    python benchmarks/loader.py [PART]... [--json FILE]

The parts are the modules of benchmarks/parts; all are run if none is named. Each prints a table and holds its figures
against the bounds that the project promises. A part leaves out what is not on this machine, and says so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from parts.table import Table

PARTS = sorted(p.stem for p in Path(__file__).with_name("parts").glob("*.py") if p.stem not in ("__init__", "table"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", type=Path, help="write the figures to a file, too")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    tables: list[Table] = []
    for name in options.parts or PARTS:
        table = importlib.import_module(f"parts.{name}").run()
        print(table, flush=True)
        tables.append(table)
    if options.json:
        options.json.write_text(json.dumps({t.title: t.to_json() for t in tables}, indent=1) + "\n")
    return 1 if any(t.missed for t in tables) else 0


if __name__ == "__main__":
    sys.exit(main())
