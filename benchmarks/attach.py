"""What attaching saves a program: ``python benchmarks/attach.py --cache CACHE --dsl DSL [--rounds N] [--json FILE]``.

``attach_program.py`` runs in a process of its own, in turns: just-in-time, with the libraries' own disk caches warm,
attached beside the DSL, and attached without it. CACHE holds its kernels, DSL is a folder with the DSL unpacked, which
this process must not find (see tests/gpu/upstream/run for both). Every process has its byte code. Printed are medians
over the rounds, and the least; exit status 1: a result was wrong, or a call is slower than just-in-time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

PROGRAM = Path(__file__).with_name("attach_program.py")
JIT, DISK, BESIDE, WITHOUT = MODES = ("just-in-time", "disk cache", "attached", "attached without DSL")
SLOWER = 1.05  # of host times: a call is slower than just-in-time where it takes more than this
Run = Mapping[str, Any]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--dsl", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every run there, too")
    options = parser.parse_args(argv)
    if find_spec("cutlass") is not None:
        parser.error("the DSL is importable here: take it off PYTHONPATH, since one mode runs without it")
    runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds + 1):  # the first one fills the disk caches and writes byte code
            for mode in MODES:
                found = _run(mode, options.cache.resolve(), options.dsl.resolve(), Path(folder))
                if turn:
                    runs[mode].append(found)
    print(table(runs))
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n")
    return 1 if slower(runs) or not all(run["right"] for found in runs.values() for run in found) else 0


def _run(mode: str, cache: Path, dsl: Path, folder: Path) -> Run:
    path = [] if mode == WITHOUT else [str(dsl / "nvidia_cutlass_dsl" / "dsl_packages"), str(dsl)]
    enabled = "1" if mode == DISK else "0"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]),
        "PYTHONPYCACHEPREFIX": str(folder / "byte_code"),
        "PRECAST_CACHE_PATH": str(cache),
        "BENCHMARK_MODE": mode,
        "QUACK_CACHE_ENABLED": enabled,
        "QUACK_CACHE_DIR": str(folder / "quack"),
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": enabled,
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": str(folder / "flash_attention"),
    }
    done = subprocess.run([sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{mode}: the program failed:\n{done.stderr[-3000:]}")
    found: Run = json.loads(done.stdout.splitlines()[-1])
    return found


def slower(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """The calls that take the host longer attached than just-in-time.

    >>> slow, fast = {"microseconds": {"gemm": 2.0}}, {"microseconds": {"gemm": 1.0}}
    >>> slower({JIT: [fast], DISK: [slow], BESIDE: [slow], WITHOUT: [fast]})
    ['attached: gemm 2.000 of just-in-time']
    """
    found = []
    for mode in (BESIDE, WITHOUT):
        for name in runs[JIT][0]["microseconds"]:
            ratio = _host(runs[mode], name) / _host(runs[JIT], name)
            if ratio > SLOWER:
                found.append(f"{mode}: {name} {ratio:.3f} of just-in-time")
    return found


def table(runs: Mapping[str, Sequence[Run]]) -> str:
    """A line for each mode, then what is slower."""
    calls = list(runs[JIT][0]["microseconds"])
    heads = ["seconds (least)", "MB", *(f"{name} us" for name in calls), "right"]
    lines = [f"{'':<22}" + "".join(f"{head:>20}" for head in heads)]
    for mode, found in runs.items():
        seconds = [run["seconds"] for run in found]
        cells = [f"{median(seconds):.2f} ({min(seconds):.2f})", f"{median(run['megabytes'] for run in found):.0f}"]
        cells += [f"{_host(found, name):.1f}" for name in calls]
        cells.append(f"{sum(run['right'] for run in found)} of {len(found)}")
        lines.append(f"{mode:<22}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join([*lines, *(f"slower: {what}" for what in slower(runs))])


def _host(runs: Sequence[Run], name: str) -> float:
    return median(run["microseconds"][name] for run in runs)


if __name__ == "__main__":
    sys.exit(main())
