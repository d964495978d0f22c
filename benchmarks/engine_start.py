"""What ``PRECAST_ATTACH`` adds to an engine's import: ``python benchmarks/engine_start.py PYTHON [--attach NAMES]``.

``PYTHON`` is one of an environment with the engine and precast-loader. It imports a module of the engine in turns with
the variable unset and set, and says how many modules of precast were imported. Without the variable there must be none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from statistics import median

MODULE = "vllm.model_executor.layers.mamba.ops.gdn_chunk_cutedsl"
CODE = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(sum(name.startswith("precast") for name in sys.modules))
"""


def main(argv: list[str] | None = None) -> int:
    """Print the table; status 1 where something of precast was imported without the variable."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("--attach", default="vllm,quack,flashinfer", help="the value of PRECAST_ATTACH")
    parser.add_argument("--module", default=MODULE, help="what is imported")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(argv)
    seconds: dict[str, list[float]] = {"": [], options.attach: []}
    modules: dict[str, int] = {}
    for turn in range(options.rounds + 1):  # the first writes byte code
        for value in seconds if turn % 2 else reversed(seconds):
            taken, modules[value] = start(options.python, options.module, value)
            if turn:
                seconds[value].append(taken)
    for value, taken_all in seconds.items():
        print(
            f"PRECAST_ATTACH={value or '(unset)':<26} {median(taken_all):6.2f} s, least {min(taken_all):6.2f} s, "
            f"{modules[value]:3} modules of precast"
        )
    ratio = median(after / before for before, after in zip(*seconds.values(), strict=True))
    print(f"set, of unset: {ratio:.3f} (median of {options.rounds} pairs)")
    return int(modules[""] > 0)


def start(python: str, module: str, attach: str) -> tuple[float, int]:
    """Seconds of a process that imports the module, and how many modules of precast it had."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PRECAST_ATTACH", "PYTHONPATH")}
    if attach:
        environment["PRECAST_ATTACH"] = attach
    begin = time.perf_counter()
    done = subprocess.run([python, "-c", CODE, module], env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - begin, int(done.stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
