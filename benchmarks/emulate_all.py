"""Emulate what ships: ``make emulate-all``, or ``python benchmarks/emulate_all.py [MANIFEST...]``.

Every manifest of ``manifests/`` is built, and ``precast verify --emulate`` runs its variants of all targets without a
GPU. ``benchmarks/results/emulated.json`` keeps the result of each variant, in place of what it had of these manifests,
and ``docs/kernels.md`` is written. With names of manifests only these are emulated; with ``--caches`` caches are taken
as they are, from its folders. ``--retarget sm_100a=sm_120a`` builds and emulates for another target, and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from kernel_list import main as write_page
from performance import RESULTS, ROOT

EMULATED = RESULTS / "emulated.json"
RIGHT, WRONG, REFUSED, LARGE, LEFT_OUT = STATES = ("right", "wrong", "refused", "too large", "left out")
_SLOWEST = 10
_PRECAST = [sys.executable, "-m", "precast.cli.main"]


def main(argv: list[str] | None = None) -> int:
    """Build, emulate, keep, write; 1 if a variant is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="*", metavar="MANIFEST", help="names in manifests/, without .yaml")
    parser.add_argument("--work", type=Path, default=ROOT / ".work" / "emulated", help="where caches go")
    parser.add_argument("--caches", type=Path, help="a folder with a cache for each manifest, in place of builds")
    parser.add_argument("--store", type=Path, help="the store of these caches")
    parser.add_argument("--seeds", type=int, default=1, help="random schedules for each problem")
    parser.add_argument("--jobs", "-j", type=int, default=2, help="variants at once")
    parser.add_argument("--retarget", default="", metavar="FROM=TO", help="as of precast build; implies --dry")
    parser.add_argument("--dry", action="store_true", help="print the table, and keep nothing")
    options = parser.parse_args(argv)
    options.work.mkdir(parents=True, exist_ok=True)
    manifests: dict[str, dict[str, dict[str, Any]]] = {}
    seconds = 0.0
    for name in options.manifests or sorted(path.stem for path in (ROOT / "manifests").glob("*.yaml")):
        cache = options.caches / name if options.caches else built(name, options)
        if cache is None or not (cache / "index.json").exists():
            print(f"{name}: there is no cache", file=sys.stderr)
            continue
        start = time.monotonic()
        found = emulated(cache, options)
        seconds += time.monotonic() - start
        manifests |= {name: found}
        counts = Counter(one["result"] for one in found.values())
        print(f"{name}: " + ", ".join(f"{counts[r]} {r}" for r in STATES if counts[r]), flush=True)
    variants = {key: one for found in manifests.values() for key, one in found.items()}
    print("\n".join(table(variants)))
    print(f"{len(variants)} variants in {seconds:.0f} s, {options.jobs} at once")
    if not options.dry and not options.retarget:
        part: dict[str, Any] = json.loads(EMULATED.read_text()) if EMULATED.exists() else {"variants": {}}
        part |= {"command": "make emulate-all", "seeds": options.seeds, "variants": kept(part["variants"], manifests)}
        EMULATED.write_text(json.dumps(part, sort_keys=True, indent=1) + "\n")
        write_page([])
    return int(any(one["result"] == WRONG for one in variants.values()))


def built(name: str, options: argparse.Namespace) -> Path | None:
    """The cache of a manifest; None where it cannot be built here."""
    cache: Path = options.work / (name + options.retarget.partition("=")[2])
    command = [*_PRECAST, "build", str(ROOT / "manifests" / f"{name}.yaml"), "-o", str(cache), *_store(options)]
    command += ["--retarget", options.retarget] if options.retarget else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: {done.stderr.strip()[-500:]}", file=sys.stderr)
    return cache if cache.exists() else None


def emulated(cache: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The result of each variant of a cache, by the first digits of its key."""
    command = [*_PRECAST, "verify", str(cache), "--emulate", "--json", "--seeds", str(options.seeds)]
    junit = options.work / "report.xml"
    command += ["-j", str(options.jobs), *_store(options), "--junit", str(junit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{cache}: {done.stderr.strip()[-1000:]}")
    report = json.loads(done.stdout)
    listed = json.loads(
        subprocess.run([*_PRECAST, "list", str(cache), "--json"], capture_output=True, check=True).stdout
    )
    targets = {one["key"]: one["target"] for one in listed["artifacts"]}
    cases = ElementTree.parse(junit).getroot().iter("testcase")
    seconds = {case.get("name", "")[-12:]: float(case.get("time", 0)) for case in cases}
    return {one["key"][:12]: one | {"seconds": seconds[one["key"][:12]]} for one in results_of(report, targets)}


def results_of(report: Mapping[str, Any], targets: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What a report of ``precast verify --emulate --json`` says of each variant.

    >>> done = {"failed": [], "problems": 4, "left_out": []}
    >>> report = {"evidence": {"scale": {"k1": done}}, "refused": {}, "left_out": {}, "variants": {}}
    >>> [(one["op"], one["target"], one["result"]) for one in results_of(report, {"k1": "sm_100a"})]
    [('scale', 'sm_100a', 'right')]
    """
    facts = report["variants"]

    def result_of(op: str, key: str, result: str, detail: str, problems: int) -> dict[str, Any]:
        named = {"key": key, "op": op, "target": targets[key]}
        return {**named, "result": result, "detail": detail[:300], "problems": problems}

    for op, keys in report["evidence"].items():
        for key, one in keys.items():
            reason = [*one["failed"], *([] if one["problems"] else one["left_out"]), ""][0]
            result = WRONG if one["failed"] else RIGHT if one["problems"] else LARGE
            yield result_of(op, key, result, reason, one["problems"])
    for key, reason in report["refused"].items():
        yield result_of(facts[key]["op"], key, REFUSED, facts[key]["opcode"] or reason, 0)
    for key, reason in report["left_out"].items():
        yield result_of(facts[key]["op"], key, LEFT_OUT, reason, 0)


def table(variants: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The results by op and target, the reasons, and the slowest."""
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    seconds: Counter[tuple[str, str]] = Counter()
    for one in variants.values():
        rows[one["op"], one["target"]][one["result"]] += 1
        seconds[one["op"], one["target"]] += one["seconds"]
    yield f"{'op':44} {'target':8} {'built':>5} " + " ".join(f"{result:>9}" for result in STATES) + "  seconds"
    for (op, target), counts in sorted(rows.items()):
        states = " ".join(f"{counts[r] or '':>9}" for r in STATES)
        yield f"{op:44} {target:8} {counts.total():5} {states} {seconds[op, target]:8.1f}"
    for target in sorted({target for _, target in rows}):
        total = sum((counts for (_, other), counts in rows.items() if other == target), Counter())
        yield f"{'all':44} {target:8} {total.total():5} " + " ".join(f"{total[r] or '':>9}" for r in STATES)
    for one in sorted(variants.values(), key=lambda one: (one["op"], one["target"])):
        if one["result"] in (WRONG, REFUSED, LEFT_OUT):
            yield f"{one['result']}: {one['op']} {one['key'][:12]} for {one['target']}: {one['detail']}"
    for one in sorted(variants.values(), key=lambda one: -one["seconds"])[:_SLOWEST]:
        yield f"slow: {one['op']} {one['key'][:12]} for {one['target']}: {one['seconds']:.1f} s"


def kept(
    stored: Mapping[str, Mapping[str, Any]], manifests: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """The results that were stored and those of some manifests, which replace all that these had before.

    >>> stored = {"old": {"result": "wrong", "manifests": ["a"]}, "both": {"result": "right", "manifests": ["a", "b"]}}
    >>> found = kept(stored, {"a": {"new": {"key": "new..", "seconds": 2.0, "result": "right"}}})
    >>> {key: one["manifests"] for key, one in found.items()}
    {'both': ['b'], 'new': ['a']}
    """
    results: dict[str, dict[str, Any]] = {}
    for key, one in stored.items():
        if others := [name for name in one["manifests"] if name not in manifests]:
            results[key] = {**one, "manifests": others}
    for name, found in manifests.items():
        for key, new in found.items():
            result = {n: v for n, v in new.items() if n not in ("key", "seconds")}
            results[key] = {**result, "manifests": sorted({*results.get(key, {}).get("manifests", ()), name})}
    return results


def _store(options: argparse.Namespace) -> Sequence[str]:
    return ["--store", str(options.store)] if options.store else []


if __name__ == "__main__":
    sys.exit(main())
