"""What observation costs: builds from scratch with it and without it, in turns."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

WITH, WITHOUT = "with", "without"

# Python imports it in every process, before anything of precast.
SWITCH_OFF = """
import importlib.util, sys

def switch_off_observer(module):
    module.Observer.install = lambda self: self
    module.Observer.observed = lambda self: {
        "asked": [], "native": [], "stamps": {}, "digests": {}, "modules": [], "missing": [], "libraries": [],
        "relative": [],
        "path": [item for item in sys.path if isinstance(item, str)], "complete": True,
    }

def switch_off_library(module):
    module.observed_environment = dict

CHANGES = {
    "precast.build.child.observe.observer": switch_off_observer,
    "precast.build.link.observer_library": switch_off_library,
}

class Finder:
    def find_spec(self, name, path=None, target=None):
        change = CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            change(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


def observed(manifest: Path, folder: Path, repeat: int) -> dict[str, list[float]]:
    """The seconds of the processor that builds from scratch took, all their processes included, by the side.

    One build of each side comes first, and does not count: it leaves byte code behind.
    """
    switch = folder / "switch"
    switch.mkdir()
    (switch / "sitecustomize.py").write_text(SWITCH_OFF)
    path = os.environ.get("PYTHONPATH", "")
    off = {"PYTHONPATH": os.pathsep.join(filter(None, (str(switch), path)))}
    sides: dict[str, Mapping[str, str]] = {WITH: {}, WITHOUT: off}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeat + 1):
        for name, variables in sides.items():
            taken = _build(manifest, folder / "observed", {**os.environ, **variables})
            if number:
                seconds[name].append(taken)
    return seconds


def scratch(seconds: Mapping[str, list[float]]) -> float:
    """The ratio of the medians.

    >>> scratch({"with": [3.0, 9.0, 2.0], "without": [2.0, 2.0, 4.0]})
    1.5
    """
    return statistics.median(seconds[WITH]) / statistics.median(seconds[WITHOUT])


def _build(manifest: Path, folder: Path, environment: Mapping[str, str]) -> float:
    """The seconds of the processor of one build from scratch, with a single worker."""
    command = [sys.executable, "-m", "precast.cli.main", "build", str(manifest), "-o", str(folder / "cache"), "-j", "1"]
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = {**environment, "PRECAST_STORE": str(folder / "store")}
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(folder)
    return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime
