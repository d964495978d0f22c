"""What caches of hostile sizes cost a reader: seconds and memory of the first ``get``, in Python and in libprecast.

    python benchmarks/hostile.py --keep after   # measure, and keep the result in benchmarks/results
    python benchmarks/hostile.py --page         # write the table of docs/security.md from the kept results

Each cache is opened in a process of its own, which has imported its reader. Seconds are of the processor; the memory is
what the process holds at most, less what it held before.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.caches import Native  # noqa: E402
from tests.helpers.hostile.readers import in_libprecast, in_python  # noqa: E402
from tests.helpers.hostile.sizes import CASES  # noqa: E402
from tests.helpers.native.libprecast import reader_program  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "hostile.json"
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- begin hostile sizes -->", "<!-- end hostile sizes -->"


def measure(names: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The results of the cases whose names match, by case and reader."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="precast-benchmark-") as folder:
        native, program = Native(Path(folder)), reader_program(Path(folder), plain=True)
        for case in CASES:
            if re.search(names, case.name):
                root = case.make(native, Path(folder) / "cache")
                one = {"Python": in_python(case, root), "libprecast": in_libprecast(case, root, program)}
                shutil.rmtree(root)
                results[case.name] = one
                for reader, got in one.items():
                    answer = " ".join(str(got["answer"]).split())
                    again = f", another {got['again'] * 1000:.0f} ms" if got["again"] else ""
                    print(
                        f"{case.name}, {reader}: {got['seconds']:.2f} s, {got['memory'] / 1e6:.0f} MB{again}: "
                        f"{answer[:150]} ({len(str(got['answer']))} characters)",
                        flush=True,
                    )
    return results


def table(results: Mapping[str, Any]) -> str:
    """The table of the page.

    >>> print(table({"before": {}, "after": {}}).splitlines()[-1])
    | --- | --- | --- | --- | --- |
    """
    lines = [
        "| cache | Python before | Python | libprecast before | libprecast |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in (case.name for case in CASES if case.name in results["after"]):
        before, after = results["before"].get(name, {}), results["after"][name]
        cells = [_cell(side.get(reader)) for reader in ("Python", "libprecast") for side in (before, after)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(got: Mapping[str, Any] | None) -> str:
    if not got:
        return ""
    if got["answer"] == "no answer":
        return f"none in {got['seconds']:.0f} s"
    return f"{got['seconds']:.2f} s, {got['memory'] / 1e6:.0f} MB"


def page() -> str:
    """The page with the table of the kept results."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(json.loads(RESULTS.read_text()))}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a pattern of cases' names")
    parser.add_argument("--keep", choices=("before", "after"), default="", help="keep the results")
    parser.add_argument("--page", action="store_true", help="write the page from the kept results")
    options = parser.parse_args()
    if not options.page:
        results = measure(options.only)
        if options.keep:
            kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            short = {
                name: {
                    reader: {**one, "answer": "no answer" if one["answer"] == "no answer" else ""}
                    for reader, one in readers.items()
                }
                for name, readers in results.items()
            }
            kept[options.keep] = {**kept.get(options.keep, {}), **short}
            RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    if options.page:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
