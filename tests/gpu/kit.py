"""Make the kit that a GPU machine without a network needs to run tests/gpu: caches, and wheels without the compiler.

    python tests/gpu/kit.py DEST [--target sm_90a]     # builds the caches of all manifests that the tests use
    python tests/gpu/kit.py DEST CACHE...              # takes these caches in place of them

On the GPU machine: bash tests/gpu/run DEST
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = (
    "manifests/default.yaml", "manifests/rows.yaml", "manifests/gemm.yaml", "manifests/collective.yaml",
    "manifests/attention.yaml", "tests/gpu/both.yaml", "tests/gpu/jax.yaml", "tests/gpu/assumptions.yaml",
    "tests/gpu/scripts.yaml", "tests/gpu/wrong.yaml", "tests/gpu/tuning/faulty.yaml", "tests/gpu/bench/copies.yaml",
)  # fmt: skip
"""What the tests launch. One whose libraries are not installed is left out, and its tests are skipped."""
NEEDED = (
    "apache-tvm-ffi",
    "zstandard",
    "pytest",
    "pluggy",
    "iniconfig",
    "packaging",
    "hypothesis",
    "sortedcontainers",
    "pytest-xdist",
    "execnet",
)
COMMAND = (  # what the command `precast` needs, which torch does not bring
    "typer", "rich", "markdown-it-py", "mdurl", "pygments", "shellingham", "annotated-doc", "pydantic", "pydantic-core",
    "annotated-types", "typing-inspection", "pyelftools", "pyyaml",
)  # fmt: skip
JAX = ("jax-tvm-ffi",)
"""For the tests of JAX, where the GPU machine has it; Python 3.10 is too old for it."""
GLIBCS = (39, 35, 34, 31, 28, 27, 24, 17)


def main() -> int:
    """Make the kit, print what is in it and what is not, and return the exit status: 1 where no cache was built."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dest", type=Path)
    parser.add_argument("caches", type=Path, nargs="*", metavar="CACHE")
    parser.add_argument("--target", action="append", default=[], help="build for this target only; may be repeated")
    parser.add_argument("--python", default="3.12", help="the Python of the GPU machine")
    options = parser.parse_args()
    dest: Path = options.dest.resolve()
    dest.mkdir(parents=True, exist_ok=True)
    for old in dest.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        caches, left_out = list(options.caches), list[str]()
        if not caches:
            caches, left_out = built(MANIFESTS, options.target, Path(scratch))
        for cache in caches:
            precast("wheel", cache, "-o", dest)
    if caches:
        collect(dest, options.python)
    for wheel in sorted(dest.glob("*.whl")):
        print(f"{wheel.stat().st_size:>9}  {wheel.name}")
    for line in left_out:
        print(f"left out: {line}")
    return 0 if caches else 1


def built(manifests: Iterable[str], targets: Sequence[str], scratch: Path) -> tuple[list[Path], list[str]]:
    """A cache of each manifest, and why the others have none."""
    caches, left_out = [], []
    for name in manifests:
        chosen = chosen_targets((ROOT / name).read_text(encoding="utf-8"), targets)
        if targets and not chosen:
            left_out.append(f"{name}: it is for none of {', '.join(targets)}")
            continue
        print(f"building {name}", flush=True)
        cache = scratch / Path(name).stem
        words = [word for target in chosen for word in ("--target", target)]
        done = precast("build", ROOT / name, "-o", cache, *words, check=False)
        if (cache / "index.json").is_file():
            caches.append(cache)
        if done.returncode:
            why = next((line for line in done.stderr.splitlines() if line.startswith("error: ")), done.stderr[-300:])
            left_out.append(f"{name}: {'some variants' if cache in caches else 'all'}: {why}")
    return caches, left_out


def chosen_targets(manifest: str, targets: Sequence[str]) -> list[str]:
    """The targets, of these, that a manifest names anywhere; a build for another target is refused.

    >>> chosen_targets("targets: [sm_90a, sm_100a]", ["sm_90a", "sm_120a"])
    ['sm_90a']
    """
    words = manifest.replace(",", " ").replace("[", " ").replace("]", " ").split()
    return [target for target in targets if target in words]


def collect(dest: Path, python: str) -> None:
    """The wheels of precast, and of what it and the tests need."""
    pip = [sys.executable, "-m", "pip"]
    for source in (ROOT / "loader", ROOT / "attach", ROOT / "measure", ROOT / "native", ROOT):
        subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", dest, source], check=True)
    tag = f"cp{python.replace('.', '')}"
    names = (*NEEDED, *COMMAND, *(JAX if python != "3.10" else ()))
    command = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", python, "--abi", tag, "--abi", "abi3", "--abi", "none", "-d", str(dest)]
    for glibc in GLIBCS:
        command += ["--platform", f"manylinux_2_{glibc}_x86_64"]
    command += ["--platform", "manylinux2014_x86_64", *(pinned(name, python) for name in names)]
    subprocess.run(command, check=True)


def pinned(name: str, python: str = "3.12", lines: Iterable[str] = ()) -> str:
    """The requirement of a package for a version of Python, by constraints.txt or by these lines.

    >>> pinned("a", "3.12", ["a==1 ; python_full_version < '3.11'", "a==2 ; python_full_version >= '3.11'"])
    'a==2'
    """
    from packaging.requirements import Requirement

    for line in lines or (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}=="):
            requirement = Requirement(line)
            versions = {"python_full_version": f"{python}.0", "python_version": python}
            if requirement.marker is None or requirement.marker.evaluate(versions):
                return f"{requirement.name}{requirement.specifier}"
    raise SystemExit(f"constraints.txt has no {name} for Python {python}: run 'make lock'")


def precast(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of precast; what it prints is shown."""
    command = [sys.executable, "-m", "precast.cli.main", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if check and done.returncode:
        raise SystemExit(done.stderr)
    return done


if __name__ == "__main__":
    sys.exit(main())
