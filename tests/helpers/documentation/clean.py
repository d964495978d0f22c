"""Environments as a reader makes them: wheels of the distributions, what these require, and nothing else.

Torch is linked from the environment of the tests where an extra asks for it: to install it takes minutes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.helpers.documentation.walks import link, link_torch, list_last
from tests.helpers.source_tree import ROOT

# In one process: each front end starts several for each distribution.
BUILD = """
import os, sys
from hatchling import build
for source in sys.argv[2:]:
    os.chdir(source)
    build.build_wheel(sys.argv[1])
"""


def wheels(folder: Path) -> dict[str, Path]:
    """The wheels of this tree, by distribution."""
    parts = ("loader", "emulator", "attach", "measure", "native", "publish", ".")
    run([sys.executable, "-c", BUILD, folder, *(ROOT / name for name in parts)])
    return {path.name.partition("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


def make(folder: Path, requirements: list[str], base: Path | None = None) -> Path:
    """Install requirements into a new environment, at the pinned versions; the folder with its programs.

    With a ``base``, the programs of another environment, it begins with what is installed there, with its byte code.
    """
    uv = Path(sys.executable).with_name("uv")
    if base is None:
        run([uv, "venv", "-q", "--relocatable", "--python", sys.executable, folder])
    else:
        shutil.copytree(base.parent, folder, symlinks=True, copy_function=link)
        list_last(next(folder.glob("lib/python3*/site-packages")))
    (without := folder / "without-torch.txt").write_text("torch; python_version < '3'\n")
    install = [uv, "pip", "install", "-q", "--python", folder / "bin" / "python", "-c", ROOT / "constraints.txt"]
    run([*install, "--override", without, "pip", *requirements])
    compiler = next(folder.glob("lib/python3*/site-packages/nvidia_cutlass_dsl"), None)
    if base is None and compiler:  # the processes of a build are closed, and write no byte code
        run([folder / "bin" / "python", "-m", "compileall", "-q", compiler])
    if any(re.search(r"\[.*torch.*\]", one) for one in requirements):
        link_torch(next(folder.glob("lib/python3*/site-packages")))
    return folder / "bin"


def with_pip(folder: Path) -> None:
    """Make an environment that has pip alone, as ``python -m venv`` does in ten times as long."""
    run([Path(sys.executable).with_name("uv"), "venv", "-q", "--python", sys.executable, folder])
    shutil.copytree(Path(sysconfig.get_path("purelib"), "pip"), next(folder.glob("lib/python3*/site-packages")) / "pip")


def programs(folder: Path, python: Path) -> Path:
    """A folder for PATH: its ``python3 -m venv`` is uv's, and ``pip`` of what that makes is, too. Both take a tenth of
    the time; ``python -m pip`` is this environment's.
    """
    uv = Path(sys.executable).with_name("uv")
    fresh = " ".join(f"--refresh-package precast{end}" for end in ("", "-loader", "-emulator", "-measure"))
    install = f"""#!/bin/sh\nexec {uv} pip "$@" --python "${{0%/*}}/python" -c '{ROOT}/constraints.txt' {fresh}\n"""
    venv = f"""#!/bin/sh -e
if [ "$1 $2" != "-m venv" ]; then exec {python} "$@"; fi
for folder; do :; done
{uv} venv -q --python {python} "$folder"
cp -a {sysconfig.get_path("purelib")}/pip "$folder"/lib/python3*/site-packages
cp "${{0%/*}}/pip-of-uv" "$folder/bin/pip"
"""
    folder.mkdir()
    for name, text in (("pip-of-uv", install), ("python3", venv)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def run(command: list[object]) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900, check=False)
    if done.returncode and ("Failed to fetch" in done.stderr or "network" in done.stderr.lower()):
        pytest.skip(f"no package index can be read: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout
