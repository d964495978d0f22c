"""What ``PRECAST_ATTACH`` adds to each start: ``python benchmarks/attach_start.py [--rounds N] [--json FILE]``.

``python -c pass`` runs in turns: in an environment without ``precast_attach.pth``; with it and the variable unset; with
it set. The last two also import a package that ``PRECAST_ATTACH`` names, an empty one: unset, and set, which attaches
it. The environments hold the loader alone, with its byte code, and are made for the run. Printed are medians, the
least, and the median of the ratios to the first start of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
ACTIVATION = "precast_attach.pth"
BARE, UNSET, SET, IMPORT_UNSET, IMPORT_SET = MODES = (
    "pass, no .pth",
    "pass, unset",
    "pass, set",
    "import quack, unset",
    "import quack, set",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", type=Path, help="write every start there, too: milliseconds")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare, active = (_environment(folder / kind, active=kind == "active") for kind in ("bare", "active"))
        starts: dict[str, list[float]] = {mode: [] for mode in MODES}
        for turn in range(options.rounds + 2):  # the first two write byte code and fill the page cache
            for mode in MODES if turn % 2 else reversed(MODES):
                taken = _start(bare if mode == BARE else active, mode)
                if turn > 1:
                    starts[mode].append(taken)
    print(table(starts))
    if options.json:
        options.json.write_text(json.dumps(starts, indent=1) + "\n")
    return 0


def _environment(folder: Path, *, active: bool) -> Path:
    """The Python of an environment that holds the loader and an empty package."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "_precast_loader.pth").write_text(f"{ROOT / 'src'}\n")
    (packages / "quack").mkdir()
    (packages / "quack" / "__init__.py").touch()
    if active:
        (packages / ACTIVATION).write_bytes((ROOT / "loader" / ACTIVATION).read_bytes())
    return folder / "bin" / "python"


def _start(python: Path, mode: str) -> float:
    """Milliseconds from the start of a process to its end."""
    kept = ("PRECAST_ATTACH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    environment["PYTHONPYCACHEPREFIX"] = str(python.parents[2] / "byte_code")
    if mode in (SET, IMPORT_SET):
        environment["PRECAST_ATTACH"] = "quack"
    begin = time.perf_counter()
    subprocess.run([str(python), "-c", mode.partition(",")[0]], env=environment, check=True)
    return 1000 * (time.perf_counter() - begin)


def table(starts: Mapping[str, Sequence[float]]) -> str:
    """A line for each mode.

    >>> print(table({BARE: [10.0, 20.0], SET: [11.0, 24.0]}))
                               ms  least ms    adds ms  of no .pth
    pass, no .pth           15.00     10.00       0.00       1.000
    pass, set               17.50     11.00       2.50       1.150
    """
    lines = [f"{'':<20}{'ms':>9}{'least ms':>10}{'adds ms':>11}{'of no .pth':>12}"]
    for mode, taken in starts.items():
        first = starts[BARE]
        more = median(one - bare for one, bare in zip(taken, first, strict=True))
        ratio = median(one / bare for one, bare in zip(taken, first, strict=True))
        lines.append(f"{mode:<20}{median(taken):>9.2f}{min(taken):>10.2f}{more:>11.2f}{ratio:>12.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
