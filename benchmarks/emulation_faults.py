"""Faults in kernels, and how many of them the emulator finds: planted at random in those of caches, or written.

    python benchmarks/emulation_faults.py
    precast build benchmarks/emulation_faults.yaml --keep ptx -o .work/faults
    python benchmarks/emulation_faults.py .work/faults --faults 60 --seed 1
    python benchmarks/emulation_faults.py .work/faults --unchanged --seeds 50

For each fault a family of kernels takes its turn, and one of its variants, and one statement of its PTX that is
executed, is chosen at random: it is dropped, its address or expected bytes are shifted, or its predicate is
inverted. The variant is then verified by emulation as by ``precast verify --emulate``. A fault is found if a check
fails. One that is not is printed with its line, to be looked at: a wait that never blocks with these sizes, or an
initialisation that nothing uses, changes nothing.

Without a cache, the small kernels of tests/helpers/emulator/twins run as ``precast verify --emulate`` runs one: each
right one must pass, however suspicious it looks, and each wrong twin of it must be found.

With --unchanged nothing is planted: every check must pass. Exits with 1 where one does not, or under 90% are found.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from emulation_mutations import Mutation, mutations, one_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the tests' helpers

from precast.build.store.store import Store, default_store
from precast.kernels.authoring.declare import Problem
from precast.loader.contract.format.artifact import Artifact
from precast.loader.resolve.cache import Cache
from precast.measure.launching.cases import Selected, selected
from precast.measure.verification.emulations import EmulationOptions, Emulations, schedules
from precast.measure.verification.kept_ptx import KeptPtx
from precast.measure.verification.verifier import NotEmulated
from tests.helpers.emulator.synchronisation import RIGHT, find
from tests.helpers.emulator.twins import KERNELS

_NEEDED = 0.9
_ATTEMPTS = 40  # statements that are tried until one is executed
_SECONDS = 600.0
# Of persistent kernels: blocks take a second tile where there are more of them than multiprocessors. These problems are
# larger than --most, and are tried where the others find nothing.
_SECOND_TILES = {"gemm": {"m": 1536, "n": 1664, "k": 64, "l": 1, "padding": 0, "offset": 0}}


@dataclass
class Edited:
    """The PTX of a cache's artifacts, one of which is changed."""

    kept: KeptPtx
    mutation: Mutation | None = None

    def text(self, op: str, artifact: Artifact) -> str:
        """The changed PTX; no other artifact is asked for in the meantime."""
        text = self.kept.text(op, artifact)
        return self.mutation.apply(text) if self.mutation else text


@dataclass
class Place:
    """A variant, and what verifies it."""

    case: Selected
    edited: Edited
    emulations: Emulations
    changes: list[Mutation] = field(default_factory=list)
    known: frozenset[str] | None = None  # what fails without a change

    @property
    def family(self) -> str:
        """The op, and the target."""
        return f"{self.case.op} {self.case.artifact.target}"

    def fault(self, mutation: Mutation | None) -> str:
        """What its checks find with a change, or nothing."""
        failed = self.failures(mutation, None)
        further = _SECOND_TILES.get(self.case.op)
        if further and (mutation is None or not failed):
            failed |= self.failures(mutation, further)
        if mutation is None:
            self.known = frozenset(failed)
        return next(iter(failed), "")

    def failures(self, mutation: Mutation | None, problem: Problem | None) -> dict[str, None]:
        """The checks that fail with a change, and not without it: of one problem, or of all that are declared."""
        self.edited.mutation = mutation
        artifact = self.case.artifact
        try:
            checks = self.emulations.checks(self.case.op, artifact.key, seed=0, problem=problem, most=None)
        except NotEmulated as error:
            return {f"refused: {error}": None}
        known = frozenset() if mutation is None else self.known or frozenset()
        return {text: None for check in checks if check.fault and (text := str(check)) not in known}

    def executed(self, chance: random.Random) -> Mutation | None:
        """A change of a statement that is executed."""
        if self.known is None:
            self.fault(None)
        self.changes = self.changes or mutations(self.edited.kept.text(self.case.op, self.case.artifact))
        for _ in range(_ATTEMPTS):
            mutation = one_of(self.changes, chance)
            if self.failures(mutation.probe, None):
                return mutation
        return None


def main() -> int:
    """Plant faults, or run unchanged kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caches", nargs="*", type=Path)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2, help="random schedules of each check; without a cache, 1")
    parser.add_argument("--most", type=int, default=1 << 18, help="elements of a problem")
    parser.add_argument("--store", type=Path, help="the store that has the PTX, if the caches do not")
    parser.add_argument("--unchanged", action="store_true")
    arguments = parser.parse_args()
    if not arguments.caches:
        return written(2 + 1)  # in order with two fills, and in one random order
    options = EmulationOptions(schedules=schedules(arguments.seeds), most=arguments.most)
    with ExitStack() as processes:
        store = Store(arguments.store or default_store())
        families: dict[str, list[Place]] = {}
        for path in arguments.caches:
            for place in places(path, store, options, processes):
                families.setdefault(place.family, []).append(place)
        if not families:
            parser.error("the caches have no kernel that can be emulated: build with --keep ptx")
        if arguments.unchanged:
            return unchanged(families)
        return plant(families, arguments.faults, arguments.seed)


def places(path: Path, store: Store, options: EmulationOptions, processes: ExitStack) -> Iterator[Place]:
    """The variants of a cache that can be emulated."""
    cache = Cache(path)
    edited = Edited(KeptPtx(cache, store))
    emulations = processes.enter_context(Emulations(cache, store, _SECONDS, options, ptx=edited))
    for case in selected(cache, tuple(sorted(cache.index.ops))):
        if isinstance(case, Selected) and not case.declaration.verifiable:
            print(f"{case.op} {case.artifact.target} is left out: its @kernel gives no problems", flush=True)
        elif isinstance(case, Selected):
            yield Place(case, edited, emulations)
        else:
            print(f"{case.op} {case.artifact.target} is left out: {case.reason}", flush=True)


def unchanged(families: dict[str, list[Place]]) -> int:
    """Whether all checks of all variants pass."""
    alarms = 0
    for family, members in families.items():
        for place in members:
            begin = time.perf_counter()
            fault = next(iter(place.failures(None, None)), "")
            alarms += bool(fault)
            print(f"{family}: {fault or 'passes'} ({time.perf_counter() - begin:.0f} s)", flush=True)
    print(f"{alarms} alarms")
    return int(alarms > 0)


def plant(families: dict[str, list[Place]], count: int, seed: int) -> int:
    """Plant faults in turns, and count those that are found."""
    chance = random.Random(seed)
    names = sorted(families)
    found, planted = 0, 0
    missed: list[str] = []
    for number in range(count):
        family = names[number % len(names)]
        place = chance.choice(families[family])
        mutation = place.executed(chance)
        if mutation is None:
            print(f"{number + 1}. {family}: no statement that is executed was chosen", flush=True)
            continue
        fault = place.fault(mutation)
        planted += 1
        found += bool(fault)
        line = f"{number + 1}. {family}, line {mutation.line}: {mutation.family}: {' '.join(mutation.before.split())}"
        if not fault:
            missed.append(line)
        print(f"{line}\n   {' '.join(fault.split())[:200] or 'NOT FOUND'}", flush=True)
    report(found, planted, missed)
    return int(found < _NEEDED * planted)


def written(runs: int) -> int:
    """Run the small kernels and their wrong twins, each so often, until something is found."""
    found, missed, alarms = 0, 0, 0
    for name, kernel in KERNELS.items():
        if (kind := find(kernel, RIGHT, runs)[0]) != "nothing":
            alarms += 1
            print(f"false alarm: {name}: {kind}", flush=True)
        for twin in kernel.twins:
            kind = find(kernel, twin, runs)[0]
            found += kind != "nothing"
            missed += kind == "nothing"
            if kind == "nothing":
                print(f"not found: {name}: {twin.name}", flush=True)
    print(f"{found} of {found + missed} found, {alarms} false alarms of {len(KERNELS)} right kernels")
    return int(missed + alarms > 0)


def report(found: int, planted: int, missed: Sequence[str]) -> None:
    """Print the counts, and what is to be looked at."""
    print(f"{found} of {planted} faults found")
    for line in missed:
        print(f"not found: {line}")


if __name__ == "__main__":
    sys.exit(main())
