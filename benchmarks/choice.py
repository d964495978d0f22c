"""How good the choice between measured sizes is: ``python benchmarks/choice.py FILE... [--together n,k]``, anywhere.

FILE is a tuning file. Of each group some problems are held out, a size at a time: all rows with one value of an axis,
as if nobody had measured it; with ``--together``, all rows with the same values of these, as those of a layer have.
For each of these the variant is chosen by the other rows; what is printed is the geometric mean of the best measured
time over that of the chosen variant, beside the same for the nearest row alone. A chosen variant that was not measured
there, since it seemed hopeless, counts as 1.6 times the best.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from precast.build.measurements.tuning_file import Group, TuningFile
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.estimate import Estimate
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table_writer import tables_of

UNMEASURED = 1.6
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
    keys = sorted({key for row in table for key in row.times}, key=int)
    choice = Estimate(tables_of(table, {}), asked.problem, keys, gpu="", capability=asked.capability).fastest(
        asked.problem
    )
    assert choice is not None
    return choice.key


def by_the_nearest(table: Sequence[Measured], asked: Measured) -> str:
    """The fastest variant of the nearest row."""

    def distance(row: Measured) -> float:
        return math.hypot(*(math.log2((n + 1) / (row.problem[axis] + 1)) for axis, n in asked.problem.items()))

    near = min(table, key=distance)
    return min(near.times, key=lambda key: near.times[key])


def shares(rows: Sequence[Measured], axes: Sequence[str], choose: Choose) -> Iterator[float]:
    """For each row: the best time over the chosen variant's, where all rows with its values of these are unknown."""
    for asked in rows:
        table = [row for row in rows if any(row.problem.get(axis) != asked.problem.get(axis) for axis in axes)]
        if table:
            best = min(asked.times.values())
            yield best / asked.times.get(choose(table, asked), UNMEASURED * best)


def main(argv: list[str] | None = None) -> int:
    """Print a line for each group and axis."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--together", metavar="AXES", help="hold out the values of several axes together: n,k")
    arguments = parser.parse_args(argv)
    for path in arguments.files:
        file = TuningFile.decode(path.read_bytes())
        capabilities = {gpu.name: gpu.capability for gpu in file.gpus}
        for group in file.groups:
            rows = rows_of(group, capabilities[group.gpu])
            print(f"{group.op} {dict(group.config)} on {group.gpu}: {len(rows)} problems")
            every = sorted({name for row in rows for name in row.problem})
            together = tuple((arguments.together or "").split(","))
            for axes in [together] if set(together) <= set(every) else [(name,) for name in every]:
                told = []
                for choose in (by_the_rule, by_the_nearest):
                    found = list(shares(rows, axes, choose))
                    if found:
                        mean = math.exp(statistics.fmean(map(math.log, found)))
                        told.append(f"{mean:.4f}, least {min(found):.3f}")
                if told:
                    print(f"  {' and '.join(axes)} held out: {told[0]} of the best; by the nearest row {told[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
