"""Planted faults, and how many of them the tests find: ``python benchmarks/mutants.py [--sample N] [--in PREFIX]``.

``benchmarks/mutants/*.yaml`` list the faults: a file, a text that occurs once in it, the text that replaces it, and
what breaks then. Each fault is planted alone, in a copy of the repository, and the tests of its room run until one
fails. ``--wider`` tries a fault that survives on the slow tests of its room, and on those of ``WIDER``.

Needs the environment of ``make test``. Exits with 1 where a fault survived, and with 2 where a text of the list does
not occur once any more, or the tests fail without a fault.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "benchmarks" / "mutants"
SCRATCH = ROOT / ".work" / "mutants"
ENVIRONMENT = Path(".work") / "test"
SECONDS = 900  # of one run of the tests of a room; a fault that makes them wait longer is found
SECONDS_OF_ALL = 7200  # of the run of all rooms without a fault
QUICK = ("-m", "not slow")

ALSO = {  # tests of a room that are in another one
    "build/cache": ("tests/attach/builder/test_object_coverage.py",),
    "build/store": ("tests/publish/test_remote.py",),
    "loader/contract/format": ("tests/loader/resolve",),
    "loader/resolve": ("tests/attacks/files",),
    "fetch/distribution": ("tests/fetch",),
    "fetch/transport": ("tests/fetch",),
}
WIDER = {
    "attach": ("tests/attach",),
    "loader": ("tests/attacks", "tests/loader/test_processes.py", "tests/cli/inspect"),
    "fetch": ("tests/attacks", "tests/end_to_end"),
    "build": ("tests/build/test_incremental.py", "tests/build/test_faults.py", "tests/build/test_reproduce.py"),
    "measure": ("tests/measure/commands",),
    "publish": ("tests/fetch",),
}


@dataclass(frozen=True)
class Mutant:
    """A fault: in ``file``, ``old`` becomes ``new``; ``breaks`` says what goes wrong."""

    file: str
    old: str
    new: str
    breaks: str

    @property
    def room(self) -> str:
        """The folder whose tests should find the fault."""
        return Path(self.file).parent.as_posix()

    @property
    def tests(self) -> tuple[str, ...]:
        """The paths of the room's tests, the file of the module's own name first."""
        own = f"tests/{self.room}/test_{Path(self.file).stem}.py"
        paths = [own, f"tests/{self.room}", f"src/precast/{self.file}", *ALSO.get(self.room, ())]
        return tuple(path for path in paths if (ROOT / path).exists())

    @property
    def wider(self) -> tuple[str, ...]:
        """The paths of the tests that use the room from further away, and of its own slow ones."""
        return (f"tests/{self.room}", *WIDER[self.room.partition("/")[0]])

    def is_stale(self, root: Path) -> bool:
        """Whether the text does not occur exactly once any more."""
        path = root / self.file
        return not path.is_file() or path.read_text().count(self.old) != 1


def read_mutants(lists: Path = LISTS) -> list[Mutant]:
    """Every fault of the lists."""
    return [Mutant(**row) for path in sorted(lists.glob("*.yaml")) for row in yaml.safe_load(path.read_text())]


def copy_tree(scratch: Path) -> None:
    """A copy of the repository with an environment of its own, whose ``precast`` is the copy's."""
    shutil.rmtree(scratch, ignore_errors=True)
    ignored = shutil.ignore_patterns(".git", ".work", "dist", "__pycache__", ".hypothesis", ".*_cache")
    shutil.copytree(ROOT, scratch, symlinks=True, ignore=ignored)
    environment = scratch / ENVIRONMENT
    environment.parent.mkdir()
    subprocess.run(["cp", "-al", ROOT / ENVIRONMENT, environment], check=True)  # gigabytes, of which few lines change
    for path in [*environment.glob("lib/*/site-packages/_precast*.pth"), *(environment / "bin").iterdir()]:
        if path.is_file() and not path.is_symlink() and str(ROOT).encode() in (data := path.read_bytes()):
            mode = path.stat().st_mode
            path.unlink()  # it is a hard link to the original
            path.write_bytes(data.replace(str(ROOT).encode(), str(scratch).encode()))
            path.chmod(mode)


def run_tests(
    scratch: Path, paths: Iterable[str], options: Sequence[str] = QUICK, limit: float = SECONDS
) -> tuple[str, float]:
    """``passed``, the name of the test that failed, or another reason; and the seconds."""
    python = scratch / ENVIRONMENT / "bin" / "python"
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        *options,
        *paths,
    ]
    begun = time.monotonic()
    process = subprocess.Popen(
        command, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"no end in {limit:.0f} s", time.monotonic() - begun
    seconds = time.monotonic() - begun
    if process.returncode == 0:
        return "passed", seconds
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return (lines[0].split(" - ")[0] if lines else output.strip()[-300:]), seconds


def plant(scratch: Path, mutant: Mutant, *, wider: bool) -> tuple[str, float]:
    """Run the tests with a fault in place; the file is restored afterwards."""
    path = scratch / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        outcome, seconds = run_tests(scratch, mutant.tests)
        if outcome == "passed" and wider:
            outcome, more = run_tests(scratch, mutant.wider, ())
            seconds += more
    finally:
        path.write_text(text)
    return outcome, seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the faults one after another and print what found each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N of the faults, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="another sample")
    parser.add_argument("--in", dest="prefix", default="", metavar="PREFIX", help="only files that begin with it")
    parser.add_argument("--wider", action="store_true", help="try what survives on slow and end-to-end tests, too")
    parser.add_argument("--check", action="store_true", help="only check that each fault can be planted")
    parser.add_argument("--scratch", type=Path, default=SCRATCH, help="the folder of the copy")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in read_mutants() if mutant.file.startswith(options.prefix)]
    stale = [mutant for mutant in mutants if mutant.is_stale(ROOT)]
    for mutant in stale:
        print(f"stale: {mutant.file} does not hold {mutant.old!r} exactly once: update benchmarks/mutants")
    if options.check:
        print(f"{len(mutants)} faults, {len(stale)} stale")
        return 2 if stale else 0
    mutants = [mutant for mutant in mutants if mutant not in stale]
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    copy_tree(options.scratch)
    rooms = dict.fromkeys(path for mutant in mutants for path in mutant.tests)
    outcome, seconds = run_tests(options.scratch, rooms, limit=SECONDS_OF_ALL)
    print(f"without a fault: {outcome} in {seconds:.0f} s", flush=True)
    if outcome != "passed":
        return 2
    return report(options.scratch, mutants, wider=options.wider) or (2 if stale else 0)


def report(scratch: Path, mutants: Sequence[Mutant], *, wider: bool) -> int:
    """Plant each fault, print a line for it, then the summary by room."""
    killed, planted = Counter[str](), Counter[str]()
    for number, mutant in enumerate(mutants, 1):
        outcome, seconds = plant(scratch, mutant, wider=wider)
        survived = outcome == "passed"
        planted[mutant.room] += 1
        killed[mutant.room] += not survived
        word = "SURVIVED" if survived else "killed  "
        print(f"{number:3}/{len(mutants)} {word} {seconds:6.1f} s  {mutant.file}: {mutant.breaks}", flush=True)
        if not survived:
            print(f"{'':20}{outcome}", flush=True)
    for room in sorted(planted):
        print(f"{room}: {killed[room]} of {planted[room]} killed")
    print(f"all: {killed.total()} of {planted.total()} killed")
    return 0 if killed == planted else 1


if __name__ == "__main__":
    sys.exit(main())
