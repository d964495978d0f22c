"""How good the choice between measured sizes is: ``python benchmarks/choice.py FILE...``, on any machine.

FILE is a tuning file. Of each group some problems are held out, a size at a time: all rows with one value of an axis,
as if nobody had measured it. For each of these the variant is chosen by the other rows; what is printed is the
geometric mean of the best measured time over that of the chosen variant, beside the same for the nearest row alone.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from precast.build.measurements.tuning_file import Group, TuningFile
from precast.loader.contract.format.estimate import Estimate
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning import Measured

Choose = Callable[[Sequence[Measured], Measured], str]


def rows_of(group: Group, capability: Capability) -> list[Measured]:
    """The rows of a group, with the positions of its candidates for keys."""
    tilings = {str(n): one.tiling for n, one in enumerate(group.candidates) if one.tiling is not None}
    found = []
    for sizes in group.problems:
        times = {str(n): one.times[sizes] for n, one in enumerate(group.candidates) if sizes in one.times}
        told = {key: tiling for key, tiling in tilings.items() if key in times}
        found.append(Measured(gpu="", capability=capability, problem=dict(sizes), times=times, tilings=told))
    return found


def by_the_rule(table: Sequence[Measured], asked: Measured) -> str:
    """What the loader takes."""
    keys = sorted(asked.times, key=int)
    choice = Estimate(table, asked.problem, keys, gpu="", capability=asked.capability).fastest(asked.problem)
    assert choice is not None
    return choice.key


def by_the_nearest(table: Sequence[Measured], asked: Measured) -> str:
    """The fastest variant of the nearest row."""

    def distance(row: Measured) -> float:
        return math.hypot(*(math.log2((n + 1) / (row.problem[axis] + 1)) for axis, n in asked.problem.items()))

    near = min(table, key=distance)
    known = {key: time for key, time in near.times.items() if key in asked.times} or asked.times
    return min(known, key=lambda key: known[key])


def shares(rows: Sequence[Measured], axis: str, choose: Choose) -> Iterator[float]:
    """For each row: the best time over the chosen variant's, where all rows with its value of an axis are unknown."""
    for asked in rows:
        table = [row for row in rows if row.problem[axis] != asked.problem[axis]]
        if table:
            yield min(asked.times.values()) / asked.times[choose(table, asked)]


def main(argv: list[str] | None = None) -> int:
    """Print a line for each group and axis."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in parser.parse_args(argv).files:
        file = TuningFile.decode(path.read_bytes())
        capabilities = {gpu.name: gpu.capability for gpu in file.gpus}
        for group in file.groups:
            rows = rows_of(group, capabilities[group.gpu])
            print(f"{group.op} {dict(group.config)} on {group.gpu}: {len(rows)} problems")
            for axis in sorted({name for row in rows for name in row.problem}):
                told = []
                for choose in (by_the_rule, by_the_nearest):
                    found = list(shares(rows, axis, choose))
                    if found:
                        mean = math.exp(statistics.fmean(map(math.log, found)))
                        told.append(f"{mean:.4f}, least {min(found):.3f}")
                if told:
                    print(f"  {axis} held out: {told[0]} of the best; by the nearest row {told[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
