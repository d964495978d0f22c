"""A first run: an empty folder, a home without anything, and the commands of the README as a terminal starts them.

``pytest -s`` shows the seconds to the first kernel, to the wheel, and until the kernels are verified.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from precast.emulator.interpreter_library import default_folder, find_library
from tests.helpers.builds import command

NEW = """\
wrote scaled.py
wrote scaled.yaml
wrote scaled_device.py

next:
  precast plan scaled.yaml
  precast build scaled.yaml -o cache
  PYTHONPATH=. precast verify cache --emulate    # without a GPU
  PYTHONPATH=. precast verify cache    # on a machine with a GPU
  PYTHONPATH=. precast bench cache
  precast wheel cache -o dist
"""
BUILD = (
    "reading 1 manifest and importing its kernels",
    "looking up 4 variants in the store and starting workers",
    *(rf"\[{at}/4\] mine.scaled\(dtype=\w+, threads=\d+\) for sm_90a: \S+ s" for at in range(1, 5)),
    "writing the cache",
    r"4 variants built, 0 reused: cache \(\S+ kB\), closed by [\w ]+",
)
WHEEL = (
    r"dist/precast_cache_scaled-\S+\.whl \(\S+ kB\)",
    r"next, where the kernels run: pip install \S+ dist/\*\.whl && python -m precast\.loader doctor",
)
VERIFY = (
    "reading the PTX of 1 op",
    *(rf"\[{at}/4\] mine.scaled\(.+\) for sm_90a: \S+ of the tolerance" for at in range(1, 5)),
    r"not run: first run: .+ \(4 variants\)",
    "4 variants verified by emulation, 0 left out",
)
SECONDS = 300
"""More than the run takes on a busy machine of two cores."""


@pytest.mark.slow
def test_every_command_prints_what_is_needed_and_names_the_next(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    find_library()  # g++ compiles it once for a machine: minutes that are not this run's
    home, folder = tmp_path / "home", tmp_path / "folder"
    shutil.copytree(default_folder(), home / ".cache" / "precast" / "emulation")
    folder.mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": ".", "PYTHONUNBUFFERED": "1"}
    begun, seconds = time.perf_counter(), dict[str, float]()

    def typed(line: str, reached: str = "") -> str:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command(*line.split()), cwd=folder, env=variables, text=True, check=False, **pipes)
        assert done.returncode == 0, done.stdout
        seconds[reached] = round(time.perf_counter() - begun, 1)
        return str(done.stdout)

    def shown(text: str, lines: tuple[str, ...]) -> bool:
        return re.fullmatch("\n".join(lines), text.rstrip("\n")) is not None

    assert typed("new scaled") == NEW
    assert shown(built := typed("build scaled.yaml -o cache -t sm_90a", "first kernel"), BUILD), built
    assert {path.name for path in home.iterdir()} == {".cache"}
    assert shown(packed := typed("wheel cache -o dist", "wheel"), WHEEL), packed
    assert shown(again := typed("wheel cache -o dist"), WHEEL[:1]), f"the next step is named once: {again}"
    assert shown(verified := typed("verify cache --emulate", "verified"), VERIFY), verified
    for reached in ("first kernel", "wheel", "verified"):
        record_property(f"seconds to {reached}", seconds[reached])
        print(f"seconds to {reached}: {seconds[reached]}")
    assert seconds["verified"] < SECONDS
