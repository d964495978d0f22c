"""A build from an empty store on two processors, against what the DSL itself takes for the same variants."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from build_sections.projects import few, precast

ROWS = Path(__file__).parents[2] / "manifests" / "rows.yaml"


@dataclass(frozen=True)
class Taken:
    """Seconds of the clock, and of the processors with all processes that were started."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s, {self.processor:.1f} s of the processors"


def timed(work: Callable[[], object]) -> Taken:
    """What some work takes that is done in child processes."""
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(time.perf_counter() - wall, processor)


def first(count: int, folder: Path) -> tuple[Path, list[dict[str, object]], dict[str, object]]:
    """A manifest of so many variants of ``rows.yaml``, the variants, and the rest of the work of a plain loop."""
    manifest, work = few(ROWS, folder, 10 * count)
    variants = work.pop("variants")
    assert isinstance(variants, list) and len(variants) >= count
    data = yaml.safe_load(manifest.read_text())
    data["kernels"] = data["kernels"][:count]
    manifest.write_text(yaml.safe_dump(data))
    return manifest, variants[:count], work


def built(manifest: Path, folder: Path) -> Taken:
    """A build with two workers, where nothing is stored."""
    return timed(lambda: precast("build", manifest, "-o", folder / "cache", "-j", 2, store=folder / "store"))


def compiled(variants: list[dict[str, object]], work: dict[str, object], loop: str, folder: Path) -> Taken:
    """Two plain processes that share the variants: each imports the DSL, compiles its half and exports it."""
    from precast.build.ipc.environment import child_environment
    from precast.loader.contract.format.target import Target

    environment = child_environment(os.environ, target=Target.parse(str(variants[0]["target"])))

    def halves() -> None:
        running = []
        for number in (0, 1):
            listed = folder / f"half-{number}.json"
            listed.write_text(json.dumps({**work, "variants": variants[number::2]}))
            command = [sys.executable, "-c", loop, str(listed)]
            running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        if sum(process.wait() for process in running):  # of all of them, also where the first has failed
            raise RuntimeError("a plain loop failed")

    return timed(halves)
