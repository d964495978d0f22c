"""Write docs/kernels.md: ``make kernels``, or ``python benchmarks/kernel_list.py [--plan] [--verified FILE...]``.

``--tested OP FILE`` adds what pytest wrote (``--junitxml FILE``) of the tests of an op that ``precast verify`` does not
launch: parts of a chain, and what several GPUs do at once.

With ``--plan`` every manifest of ``manifests/`` is planned, and ``benchmarks/results/shipped.json`` keeps what they
ship. A manifest that cannot be planned here, such as one that needs a clone that no variable names, is told and stays
as it was. ``--verified`` adds what ``precast verify CACHE --json`` printed to
``benchmarks/results/MACHINE/verify.json``. Without either the page alone is written.
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from kernels_page import page, shipped_by
from performance import RESULTS, ROOT, slug, stored

SHIPPED = RESULTS / "shipped.json"
EMULATED = RESULTS / "emulated.json"
PAGE = ROOT / "docs" / "kernels.md"
_COMMAND = "precast verify CACHE --json"


def main(argv: list[str] | None = None) -> int:
    """Plan the manifests, keep the evidence, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", action="store_true", help="plan every manifest again")
    parser.add_argument("--verified", nargs="+", type=Path, default=[], metavar="FILE")
    parser.add_argument("--tested", nargs=2, action="append", default=[], metavar=("OP", "FILE"))
    options = parser.parse_args(argv)
    missed = plan_all() if options.plan else 0
    for file in options.verified:
        keep_verified(json.loads(file.read_text()), RESULTS)
    for op, file in options.tested:
        keep_tested(op, file, RESULTS)
    PAGE.write_text(rendered())
    print(f"{PAGE} is written")
    return 1 if missed else 0


def rendered() -> str:
    """The page of the stored files."""
    emulated = json.loads(EMULATED.read_text()) if EMULATED.exists() else {"variants": {}}
    return page(json.loads(SHIPPED.read_text()), stored(), emulated)


def plan_all() -> int:
    """Plan the manifests, and keep what they ship; how many could not be planned."""
    before = json.loads(SHIPPED.read_text()) if SHIPPED.exists() else {"manifests": {}, "ops": {}}
    shipped: dict[str, Any] = {"manifests": {}, "ops": registered()}
    missed = 0
    for path in sorted((ROOT / "manifests").glob("*.yaml")):
        command = [sys.executable, "-m", "precast.cli.main", "plan", str(path), "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            missed += 1
            print(f"{path.name} stays as it was: {done.stderr.strip()[:300]}", file=sys.stderr)
            counts = before["manifests"].get(path.name, {})
            facts = {op: before["ops"][op] for op in counts}
        else:
            counts, facts = shipped_by(json.loads(done.stdout))
        shipped["manifests"][path.name] = counts
        shipped["ops"] = {**facts, **shipped["ops"]}
    SHIPPED.write_text(json.dumps(shipped, sort_keys=True, indent=1) + "\n")
    return missed


def registered() -> dict[str, Any]:
    """The ops that this distribution registers, with what is said of them."""
    from precast.kernels.authoring.declare import declaration_of
    from precast.kernels.authoring.registry import find, known_ops, load

    found = {}
    for op in known_ops():
        source = find(op)
        function = load(source)
        targets = list(declaration_of(function).targets)
        found[op] = {
            "doc": " ".join((inspect.getdoc(function) or "").split()),
            "source": str(source),
            "targets": targets,
        }
    return found


def keep_verified(report: Mapping[str, Any], results: Path) -> None:
    """Add a report of evidence to that of its machine: of each artifact the last counts.

    >>> import tempfile
    >>> one = {"gpu": "NVIDIA H200", "driver": "580", "date": "2026-11-22T1", "problems": 4, "failed": [], "worst": 0.5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep_verified({"evidence": {"scale": {"ab" * 32: one}}}, Path(folder))
    ...     json.loads(Path(folder, "nvidia-h200", "verify.json").read_text())["data"]["scale"]
    {'abababababab': {'date': '2026-11-22', 'failed': [], 'problems': 4, 'worst': 0.5}}
    """
    for op, keys in report["evidence"].items():
        for key, one in keys.items():
            target = results / slug(one["gpu"]) / "verify.json"
            part: dict[str, Any] = {"data": {}}
            if target.exists():
                part = json.loads(target.read_text())
            date = one["date"][:10]
            part |= {"part": "verify", "command": _COMMAND, "date": max(date, part.get("date", ""))}
            part["machine"] = {"name": one["gpu"], "driver_version": one["driver"]}
            kept = {
                "problems": one["problems"],
                "failed": list(_first(one["failed"])),
                "worst": one.get("worst"),
                "date": date,
            }
            part["data"].setdefault(op, {})[key[:12]] = kept
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(part, sort_keys=True, indent=1) + "\n")


def keep_tested(op: str, file: str | Path, results: Path) -> None:
    """Add the tests of an op to those of the machine that they ran on; SystemExit where not all of them passed."""
    suites = list(ElementTree.parse(file).getroot().iter("testsuite"))
    counts = {name: sum(int(s.get(name, 0)) for s in suites) for name in ("tests", "failures", "errors", "skipped")}
    facts = {p.get("name", ""): p.get("value", "") for s in suites for p in s.iter("property")}
    passed = counts["tests"] - sum(counts[name] for name in ("failures", "errors", "skipped"))
    if counts["failures"] or counts["errors"] or not passed or not facts.get("gpu"):
        raise SystemExit(f"{file}: {counts} on {facts.get('gpu') or 'no GPU'}: keep a run on a GPU in which all passed")
    target = results / slug(facts["gpu"]) / "tests.json"
    part: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {"data": {}}
    dates = [s.get("timestamp", "")[:10] for s in suites]
    files = {case.get("classname", "").replace(".", "/") + ".py" for s in suites for case in s.iter("testcase")}
    part["data"][op] = {"passed": passed, "files": sorted(files), "date": max(dates), "gpus": int(facts["gpus"])}
    part |= {
        "part": "tests",
        "command": "tests/gpu/run KIT --junitxml FILE",
        "date": max([*dates, part.get("date", "")]),
    }
    part["machine"] = {"name": facts["gpu"], "driver_version": facts["driver"]}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(part, sort_keys=True, indent=1) + "\n")


def _first(failed: Sequence[str]) -> Sequence[str]:
    """The first failure, in short: the report has all."""
    return [text[:200] for text in failed[:1]]


if __name__ == "__main__":
    sys.exit(main())
