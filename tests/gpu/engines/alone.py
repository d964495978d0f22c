"""The table of ``warm_engines``, each case in a process of its own: one that ends by a signal is one row of it.

``python -m tests.gpu.engines.alone [vllm] [sglang] [PART OF A SITE...]``, where the engines are to be attached.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.gpu.engines.site import Row
from tests.gpu.engines.warm_engines import about_this_machine, selected

AT_ONCE = 6
SECONDS = 200
ATTACHED = ("precast.loader.attach", "--library", "vllm", "--library", "sglang", "--mode", "frozen")
WITHOUT_COMPILER = ("--without-compiler", "-m", "tests.gpu.engines.warm_engines", "--without-natives")


def main(words: list[str]) -> int:
    print(about_this_machine(), flush=True)
    ends: Counter[str] = Counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for row in pool.map(row_of, [case.site for case in selected(words)]):
            ends[row.end] += 1
            print(row, flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    return int(set(ends) != {"right"})


def row_of(site: str) -> Row:
    """The row that a process of its own prints for a case."""
    command = [sys.executable, "-P", "-m", *ATTACHED, *WITHOUT_COMPILER, f"--only={site}"]
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Row(site, "refused", reason=f"no end in {SECONDS} s")
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(f"{site} | ")]
    if rows:
        _, end, error, reason = rows[0]
        return Row(site, end, float(error) if error else None, reason)
    return Row(site, "crashed", reason=f"{ended(done.returncode)}: {' '.join(done.stderr[-1500:].split())}")


def ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
