"""How good the model of unmeasured GPUs is: ``python benchmarks/model.py H200 FILE...``, on any machine.

FILE is a tuning file that was measured on that GPU. For each of its problems the model chooses among the candidates
that were measured; what is printed is the geometric mean of the best measured time over that of the chosen one, beside
the same for the one candidate that is best on the whole.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from precast.build.gpu.speeds import Speeds, speeds_named
from precast.build.measurements.tuning_file import Group, TuningFile
from precast.build.tuning.model import microseconds
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.launching.cases import filled
from precast.kernels.authoring.registry import find, load


def shares(group: Group, declaration: Declaration, speeds: Speeds) -> tuple[list[float], list[float]]:
    """For each problem the best time over that of the modelled choice; and the mean share of each candidate."""
    chosen: list[float] = []
    each: dict[int, list[float]] = {}
    for sizes in group.problems:
        measured = [(n, one) for n, one in enumerate(group.candidates) if sizes in one.times and one.tiling]
        if len(measured) < 2:
            continue
        best = min(one.times[sizes] for _, one in measured)
        modelled = {}
        for number, one in measured:
            config = {**group.config, **one.tuned}
            problem = filled(dict(sizes), declaration.problems(config) if declaration.problems else ())
            tile = declaration.tile(config, group.target) if declaration.tile else None
            assert one.tiling and tile
            modelled[number] = microseconds(declaration, config, problem, tile, one.tiling, speeds)
            each.setdefault(number, []).append(best / one.times[sizes])
        first = min(modelled, key=lambda number: modelled[number])
        chosen.append(best / group.candidates[first].times[sizes])
    return chosen, [mean(values) for values in each.values() if len(values) == len(chosen)]


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main(argv: list[str] | None = None) -> int:
    """Print a line for each group whose kernel declares tiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu", metavar="GPU")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    speeds = speeds_named(options.gpu)
    for path in options.files:
        for group in TuningFile.decode(path.read_bytes()).groups:
            declaration = declaration_of(load(find(group.op)))
            if declaration.tile is None or declaration.cost is None:
                continue
            chosen, fixed = shares(group, declaration, speeds)
            if chosen:
                one = f"; the best single one {max(fixed):.4f}" if fixed else ""
                print(
                    f"{group.op} {group.config.get('dtype')} on {group.gpu}: {len(chosen)} problems of "
                    f"{len(group.candidates)} candidates: {mean(chosen):.4f} of the best, least {min(chosen):.3f}{one}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
