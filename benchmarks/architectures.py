"""Build shipped manifests for every architecture, and write the table of docs/architectures.md.

    python benchmarks/architectures.py --work /tmp/work --manifests default rows --targets sm_120a sm_103a

Nothing is launched, and no GPU is needed. Each manifest is built with ``--retarget sm_100a=TARGET``; what was built
before is reused. ``benchmarks/results/architectures.json`` keeps the counts: what this run does not build stays as it
was. Without ``--targets`` the page alone is written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "architectures.json"
PAGE = ROOT / "docs" / "architectures.md"
BEGIN, END = "<!-- the table: benchmarks/architectures.py -->", "<!-- the end of the table -->"


def main(argv: list[str] | None = None) -> int:
    """Build, keep the counts, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="where the caches are written")
    parser.add_argument("--manifests", nargs="+", default=["default"], metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=[], metavar="TARGET")
    options = parser.parse_args(argv)
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.manifests:
        for target in options.targets:
            found = build(name, target, options.work / f"{name}-{target}")
            kept.setdefault(name, {})[target] = found
            RESULTS.write_text(json.dumps(kept, sort_keys=True, indent=1) + "\n")
            print(f"{name}.yaml for {target}: {cell(found)}", flush=True)
    PAGE.write_text(with_table(PAGE.read_text(), table(kept)))
    return 0


def build(name: str, target: str, cache: Path) -> dict[str, Any]:
    """Build one manifest for one architecture: how many variants, how many refused, which fail and spill."""
    from precast.loader.resolve.cache import Cache

    command = [sys.executable, "-m", "precast.cli.main", "build", str(ROOT / "manifests" / f"{name}.yaml"), "--json"]
    command += ["--retarget", f"sm_100a={target}", "-o", str(cache), "-j", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"{name} for {target}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout.splitlines()[-1])
    spilling: dict[str, int] = {}
    if (cache / "index.json").exists():
        opened = Cache(cache)
        for op in opened.index.ops:
            count = sum(any(r.stack or r.local for r in one.resources) for one in opened.op(op).artifacts)
            if count:
                spilling[op] = count
    failed: dict[str, str] = {one["op"]: one["reason"][:300] for one in report["failed"]}
    return {
        "built": report["built"] + report["reused"],
        "failed": failed,
        "failures": len(report["failed"]),
        "refused": len(report["skipped"]),
        "spilling": spilling,
    }


def cell(found: Mapping[str, Any]) -> str:
    """The counts in short.

    >>> cell({"built": 4, "refused": 2, "failures": 1, "spilling": {"op": 3}})
    '4 (2 refused, 1 fails, 3 spill)'
    >>> cell({"built": 0, "refused": 2, "failures": 0, "spilling": {}})
    'none'
    """
    notes = [f"{found['refused']} refused"] if found["refused"] and found["built"] else []
    notes += [f"{found['failures']} {'fails' if found['failures'] == 1 else 'fail'}"] if found["failures"] else []
    spilling = sum(found["spilling"].values())
    notes += [f"{spilling} {'spills' if spilling == 1 else 'spill'}"] if spilling else []
    count = str(found["built"] or "none")
    return f"{count} ({', '.join(notes)})" if notes else count


def table(kept: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The rows of the page: a manifest each, and an architecture each column; then what spills and fails."""
    targets = sorted({t for row in kept.values() for t in row}, key=lambda t: (len(t.rstrip("af")), t))
    lines = [f"| manifest | {' | '.join(targets)} |", f"| --- |{' --- |' * len(targets)}"]
    for name, row in sorted(kept.items()):
        cells = [cell(row[t]) if t in row else "" for t in targets]
        lines.append(f"| `{name}.yaml` | {' | '.join(cells)} |")
    told = [
        f"- `{op}` in `{name}.yaml` for {target}: {count} {'spills' if count == 1 else 'spill'}."
        for name, row in sorted(kept.items())
        for target in targets
        for op, count in sorted(row.get(target, {}).get("spilling", {}).items())
    ]
    told += [
        f"- `{op}` in `{name}.yaml` fails for {target}: `{_reason(reason)}`"
        for name, row in sorted(kept.items())
        for target in targets
        for op, reason in sorted(row.get(target, {}).get("failed", {}).items())
    ]
    return "\n".join([*lines, "", *told, ""] if told else [*lines, ""])


def _reason(text: str) -> str:
    """What went wrong, without the advice, and without the name of the symbol, which is another in every build.

    >>> _reason("__tvm_ffi_a_12ab asks for more: use less")
    'its kernel asks for more'
    """
    first = text.splitlines()[0].partition(": use ")[0][:160]
    word, _, rest = first.partition(" ")
    return f"its kernel {rest}" if word.startswith("__tvm_ffi_") else first


def with_table(page: str, rows: str) -> str:
    """The page with other rows between its two marks.

    >>> with_table(f"text\\n{BEGIN}\\nold\\n{END}\\nmore", "new").splitlines()[2]
    'new'
    """
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
