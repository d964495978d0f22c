"""Processor time of the call path without a GPU, beside other checkouts: ``python benchmarks/call_path.py [TREE...]``.

An object whose entry does nothing and a cubin whose driver is a stand-in are opened and called. Every figure is taken
in fresh processes, by turns in this checkout and in each TREE, whose environment is in its ``.work/test``. The least of
all rounds counts, since other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CALLS = 20_000
UNITS = {"import": 1e3, "first": 1e3, "first cubin": 1e3}  # milliseconds; calls are in microseconds


def main() -> int:
    """Measure in turns, and print a column for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", help="checkouts to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child)))
        return 0
    trees = [ROOT, *(tree.resolve() for tree in args.trees)]
    best: dict[Path, dict[str, float]] = {tree: {} for tree in trees}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for number, tree in enumerate(trees):
                for name, value in one_round(tree, Path(folder, str(number))).items():
                    best[tree][name] = min(value, best[tree].get(name, value))
    print(f"{'':<34}" + "".join(f"{tree.name:>12}" for tree in trees))
    for name in best[ROOT]:
        unit, factor = ("ms", 1e3) if name in UNITS else ("us", 1e6)
        figures = "".join(f"{best[tree].get(name, float('nan')) * factor:>12.3f}" for tree in trees)
        print(f"{f'{name}, {unit}':<34}{figures}")
    return 0


def one_round(tree: Path, folder: Path) -> dict[str, float]:
    """The figures of one process. The first one of a checkout also writes its caches."""
    folder.mkdir(exist_ok=True)
    command = [tree / ".work/test/bin/python", ROOT / "benchmarks" / Path(__file__).name, "--child", folder]
    done = subprocess.run([*map(str, command)], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def measure(folder: Path) -> dict[str, float]:
    """Every figure, in seconds, in this process."""
    figures: dict[str, float] = {}
    import torch

    start = time.process_time()
    from precast.loader import session

    session.default.machines  # noqa: B018 - the session is made at its first use
    figures["import"] = time.process_time() - start
    sys.path.insert(0, ".")
    caches = folder / "object", folder / "cubin"
    if not caches[1].exists():
        write_caches(folder, *caches)
    from precast.loader.contract.format.target import Capability
    from precast.loader.machine.machine import Machines, replace
    from precast.loader.resolve.candidate import Request

    here = Machines(replace(Machines().host, capability=Capability(9, 0)))
    x, y = torch.zeros(1), torch.zeros(1)
    start = time.process_time()
    kernel = session.Session(str(caches[0]), machines=here).lookup(Request(op="scale", config={"dtype": "fp32"})).kernel
    kernel(x, y, 2.0)
    figures["first"] = time.process_time() - start
    figures |= {
        "a call of an object, two tensors": of_calls(kernel, x, y, 2.0),
        "a call of an object, a number": of_calls(kernel, 5),
    }
    args = [torch.zeros(17, 4), None, torch.zeros(17, dtype=torch.float8_e4m3fn), 2, True, 1.5, -2.0]
    stand_in(folder)
    start = time.process_time()
    cubin = session.Session(str(caches[1]), machines=here).lookup(Request(op="op")).kernel
    cubin(*args)
    figures["first cubin"] = time.process_time() - start
    figures["a call of a cubin, two launches"] = of_calls(cubin, *args)
    return figures


def of_calls(kernel: Callable[..., Any], *args: Any) -> float:
    """The seconds of a call, the best of some loops."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(CALLS // 5):
            kernel(*args)
        best = min(best, (time.process_time() - start) / (CALLS // 5))
    return best


def write_caches(folder: Path, objects: Path, cubins: Path) -> None:
    """A cache of objects and one of cubins."""
    from precast.loader.contract.values import replace
    from tests.helpers.caches import CacheWriter, Native, artifact, demo
    from tests.helpers.gpu.programs import PROGRAM, SIGNATURE

    native = Native(folder)
    demo(native).write(objects)
    writer = CacheWriter()
    made = artifact(writer.keep(b"device code"), {}, symbol="first", kind="cubin", host=None)
    writer.op("op", [replace(made, signature=SIGNATURE, program=PROGRAM)], keys=())
    native.launches()
    writer.write(cubins)


def stand_in(folder: Path) -> None:
    """Let cubins be launched through the stand-in for the driver."""
    from precast.loader.launch import native_program
    from tests.helpers.gpu.launches import Launches
    from tests.helpers.gpu.programs import PROGRAM

    library = folder / "libcuda-launches.so"
    native_program.LIBRARY = str(library)
    Launches(library).expect(PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
