"""Run tests with other versions than those of constraints.txt: ``ends.py END UV WORK [PYTEST_ARGUMENT...]``.

``lowest`` and ``highest`` are the oldest and the newest versions that the distributions accept, ``newest`` the newest
releases of the libraries whose kernels are served. The environment is WORK/END; UV is the program. Torch is the build
that constraints.txt pins: pip finds no CPU build of most others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINNED = ("torch", "pip")  # by constraints.txt, whatever the end


@dataclass(frozen=True)
class End:
    """How versions are resolved, what is installed, and the tests that must pass with it."""

    resolution: str
    extras: str
    tests: tuple[str, ...]
    libraries: tuple[str, ...] = ()


_ROOMS = ("plan", "store", "cache", "wheel", "link", "compile")
_OWN = (
    "tests/loader", "tests/fetch", "tests/attach", "tests/cli", "tests/measure/commands", "tests/publish",
    *(f"tests/build/{room}" for room in _ROOMS),
)  # fmt: skip
_EXTRAS = "tools,cu13,attach,dask,emulate,hub,remote,export,sign"
_ALONE = ("loader", "emulator", "attach", "measure", "native", "publish")  # folders of distributions of their own
ENDS = {
    "lowest": End("lowest-direct", _EXTRAS, _OWN),
    "highest": End("highest", _EXTRAS, _OWN),
    "newest": End(
        "highest",
        "tools,cu13,attach",
        ("tests/attach", "tests/end_to_end/test_attach.py"),
        ("quack-kernels", "flashinfer-python", "flash-attn-4>=4.0.0b18", "nvidia-cutlass-operators", "triton"),
    ),
}


def main(name: str, uv: str, work: Path, arguments: list[str]) -> int:
    """Resolve, install, test; the status is that of the first step that fails."""
    end, pins = ENDS[name], work / f"{name}.txt"
    work.mkdir(parents=True, exist_ok=True)
    pins.write_text(resolve(end, uv))
    if name == "lowest" and (untested := bounds_not_reached(pins.read_text())):
        print("\n".join(untested), file=sys.stderr)
        return 1
    own = (*(f"./{folder}" for folder in _ALONE), f".[{end.extras}]")
    packages = [*(word for one in own for word in ("-e", one)), *end.libraries]
    make = [sys.executable, str(ROOT / ".ci" / "environment.py"), "--torch", str(work / name), "--", *packages]
    made = subprocess.run(make, env={**os.environ, "CONSTRAINTS": str(pins)}, cwd=ROOT, check=False)
    test = [str(work / name / "bin" / "python"), "-m", "pytest", "-m", "not slow", *end.tests, *arguments]
    return made.returncode or subprocess.run(test, cwd=ROOT, check=False).returncode


def resolve(end: End, uv: str) -> str:
    """The versions, as a file of constraints."""
    fixed = re.findall(rf"^(?:{'|'.join(PINNED)})==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    own = [*(f"./{folder}" for folder in _ALONE), f".[{end.extras}]"]
    words = [uv, "pip", "compile", "-q", "--resolution", end.resolution, "--python", sys.executable]
    names = ("precast", *(f"precast-{folder}" for folder in _ALONE), *PINNED)
    left_out = [word for name in names for word in ("--no-emit-package", name)]
    command = [*words, "--no-annotate", "--no-header", *left_out, "-"]
    # Without torch, whose metadata asks for the newest CUDA; the libraries ask for it, and get the pinned one.
    asked = [*own, *end.libraries, *(fixed if end.libraries else ())]
    done = subprocess.run(command, input="\n".join(asked), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout + "\n".join(fixed) + "\n"


def bounds_not_reached(pins: str) -> list[str]:
    """The lower bounds in every pyproject.toml that a resolution at its lowest does not have: nothing tests them."""
    versions = dict(re.findall(r"^([\w.-]+)==([\w.]+)", pins, re.MULTILINE))
    texts = [(ROOT / folder / "pyproject.toml").read_text() for folder in (".", *_ALONE)]
    bounds = {b for text in texts for b in re.findall(r'"([\w.-]+)(?:\[\w+\])?>=([\w.]+)[",;]', text)}
    return [
        f"{name}>={bound} is not tested: the least version that can be installed is {versions[name]}"
        for name, bound in sorted(bounds)
        if name in versions and not same(versions[name], bound) and name not in PINNED
    ]


def same(version: str, bound: str) -> bool:
    """Whether a version is the first of a bound: ``0.8.0`` and ``13.2.51`` are, of ``0.8`` and ``13.2``."""
    return version == bound or version.startswith(f"{bound}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]).absolute(), sys.argv[4:]))
