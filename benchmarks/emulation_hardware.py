"""Compares emulated kernels with a GPU, variant by variant, on one small problem each.

    python benchmarks/emulation_hardware.py record OUT CACHE...     # on a GPU
    python benchmarks/emulation_hardware.py compare OUT CACHE... [--store STORE] [--json FILE]      # anywhere

    python benchmarks/emulation_hardware.py page JSON...            # writes the counts in docs/reference/emulation.md

`record` launches and keeps the bits of the outputs; `compare` emulates the same and compares.

Inputs are made on the CPU from a seed, and their digests are kept, so that both work on the same bits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main() -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "compare"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument("caches", type=Path, nargs="+")
    commands.choices["compare"].add_argument("--json", type=Path)
    commands.choices["compare"].add_argument("--store", type=Path, help="the store that keeps the PTX of the caches")
    commands.choices["compare"].add_argument("-j", type=int, default=1, help="processes")
    commands.choices["compare"].add_argument("--op", action="append", default=[])
    commands.add_parser("page").add_argument("json", type=Path, nargs="+")
    child = commands.add_parser("record-from")
    child.add_argument("start", type=int)
    child.add_argument("out", type=Path)
    child.add_argument("caches", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "page":
        from hardware.page import write

        rows = [row for path in options.json for row in json.loads(path.read_text())]
        write(Path(__file__).parent.parent / "docs" / "reference" / "emulation.md", rows)
        return 0
    if options.command == "compare":
        from hardware.comparison import compare_all

        return compare_all(options.folder, options.caches, options.store, options.op, options.json, options.j)
    from hardware.recording import record_all, record_from

    if options.command == "record-from":
        record_from(options.caches, options.start, options.out)
        return 0
    from hardware.stored import save

    begun = time.monotonic()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = record_all(options.caches, options.folder)
    save(options.folder, results)
    failed = [result for result in results if result.failed]
    print(f"{len(results)} variants, {len(failed)} without results, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
