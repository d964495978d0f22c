"""The whole pipeline on this machine: build, pack, install where there is no compiler, resolve, open, launch, emulate.

``make demo`` runs it with the environment that holds the builder. Only the standard library is used here.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / ".ci" / "environment.py"
MANIFEST = ROOT / "manifests" / "default.yaml"
TARGETS = ("sm_90a", "sm_100a")
EMULATED = ("scale", "layernorm", "softmax", "quantize_fp8")


def main() -> int:
    """Run every step; the first that fails ends the demo with its own exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where everything goes")
    parser.add_argument("--builder", type=Path, required=True, help="the environment that has precast")
    args = parser.parse_args()
    work, binaries = args.work.absolute() / "demo", args.builder.absolute() / "bin"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        cache = build(binaries, work)
        wheels = pack(binaries, work, cache)
        clean = install(args.work.absolute() / "clean", wheels)
        use(clean)
        emulate(binaries, work, cache)
    except subprocess.CalledProcessError as error:
        print(f"\nthe demo stopped: {Path(str(error.cmd[0])).name} ended with {error.returncode}", file=sys.stderr)
        return int(error.returncode) or 1
    return 0


def build(binaries: Path, work: Path) -> Path:
    """Compile the default manifest for every target of the demo."""
    step(1, f"build {MANIFEST.relative_to(ROOT)} for {' and '.join(TARGETS)}, with the compiler and without a GPU")
    cache = work / "cache"
    targets = [word for t in TARGETS for word in ("-t", t)]
    timed(
        lambda: call(binaries / "precast", "build", MANIFEST, "-o", cache, "--store", work.parent / "store", *targets)
    )
    call(binaries / "precast", "list", cache)
    return cache


def pack(binaries: Path, work: Path, cache: Path) -> list[Path]:
    """Make the two wheels that a deployment installs: the loader, and the cache."""
    step(2, "pack the cache into a wheel")
    wheels = work / "wheels"
    call(binaries / "precast", "wheel", cache, "-o", wheels)
    hatchling = [binaries / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", wheels]
    call(*hatchling, folder=ROOT / "loader", quiet=True)
    found = sorted(wheels.glob("*.whl"))
    for wheel in found:
        print(f"  {wheel.name}  {wheel.stat().st_size / 1000:.0f} kB")
    return found


def install(folder: Path, wheels: list[Path]) -> Path:
    """An environment with those wheels and what they depend on; torch only where it can be used."""
    step(3, "install both wheels into a clean environment")
    torch = ["--torch"] if has_gpu() else []
    call(sys.executable, SETUP, *torch, "--clear", folder, "--", *wheels)
    python = folder / "bin" / "python"
    call(python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "freeze")
    probe = "import importlib.util as u; raise SystemExit(u.find_spec('cutlass') is not None)"
    call(python, "-I", "-c", probe)
    print("  import cutlass: there is no such module here")
    return python


def use(python: Path) -> None:
    """Run the user's side there, from a folder that has nothing to do with the tree."""
    step(4, "resolve, open and launch every variant, in that environment")
    call(python, "-I", ROOT / "tests" / "demo" / "use.py", folder=python.parent)


def emulate(binaries: Path, work: Path, cache: Path) -> None:
    """Run some variants of each target without a GPU: their host code, then their PTX, which the store has."""
    step(5, f"emulate {', '.join(EMULATED)} for {' and '.join(TARGETS)}: every run is compared with its reference")
    ops = [word for op in EMULATED for word in ("--op", op)]
    words = ["verify", cache, "--emulate", "--store", work.parent / "store", *ops]
    timed(lambda: call(binaries / "precast", *words))


def has_gpu() -> bool:
    """The set-up script's own answer."""
    answer: Any = runpy.run_path(str(SETUP))["has_gpu"]
    return bool(answer())


def step(number: int, text: str) -> None:
    """A heading."""
    print(f"\n[{number}/5] {text}", flush=True)


def timed(action: Callable[[], None]) -> None:
    """Do it and say how long it took."""
    start = time.monotonic()
    action()
    print(f"  took {time.monotonic() - start:.1f} s", flush=True)


def call(*words: object, folder: Path = ROOT, quiet: bool = False) -> None:
    """Run a command to its end, without the variables that would let it see other environments."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "PRECAST_CACHE_PATH")}
    output = subprocess.DEVNULL if quiet else None
    subprocess.run([str(w) for w in words], check=True, cwd=folder, env=kept, stdin=subprocess.DEVNULL, stderr=output)


if __name__ == "__main__":
    sys.exit(main())
