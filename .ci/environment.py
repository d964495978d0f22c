"""Make a virtual environment: ``environment.py [--torch] [--clear] FOLDER REQUIREMENT...``.

Every version is pinned by constraints.txt, or by the file that the variable CONSTRAINTS names. A second run with the
same requirements does nothing; after an interrupted run the environment is made again. Needs Python 3.10 or newer with
pip, and nothing else.
"""

from __future__ import annotations

import argparse
import ctypes.util
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = Path(os.environ.get("CONSTRAINTS") or ROOT / "constraints.txt").absolute()
STAMP = ".ready"
BUILD_REQUIREMENTS = ("hatchling", "apache-tvm-ffi")  # of the distributions, which are built in the environment itself

NO_TORCH = """\
No CPU build of torch {version} was found, and this machine has no GPU: pip would install the CUDA build, with
several gigabytes of CUDA libraries that cannot be used here. Torch was not installed. Do one of these:
  - make test TORCH_INDEX=ADDRESS   the address of PyTorch's CPU wheel index, as pytorch.org's install page gives it
  - make test TORCH_INDEX=FOLDER    a folder that holds torch-{version}+cpu-*.whl
  - make test TORCH_CUDA=1          install the CUDA build anyway"""


def main(argv: list[str] | None = None) -> int:
    """Parse, compare the stamp, make the environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="with torch, as the CPU build where there is no GPU")
    parser.add_argument("--clear", action="store_true", help="when anything changed, start with an empty environment")
    parser.add_argument("folder", type=Path)
    parser.add_argument("requirement", nargs="+", help="a requirement, a wheel, or -e PATH after --")
    args = parser.parse_args(argv)
    if sys.version_info < (3, 10):  # noqa: UP036 - make may be run with an older one
        return fail(f"Python {sys.version.split()[0]} is too old: run make with PYTHON=python3.10 or newer")
    folder: Path = args.folder.absolute()
    wanted = digest(folder, [*args.requirement, f"torch={args.torch}"], files(args.requirement))
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return 0
    if args.clear or not stamp.is_file():
        shutil.rmtree(folder, ignore_errors=True)
    stamp.unlink(missing_ok=True)
    print(f"setting up {args.folder}", flush=True)
    try:
        create(folder)
        install(folder, args.requirement, args.torch)
    except subprocess.CalledProcessError as error:
        return fail(
            f"setting up {args.folder} failed: read the output of {Path(error.cmd[0]).name} above, then try again"
        )
    except LookupError as error:
        return fail(str(error))
    stamp.write_text(wanted)
    return 0


def fail(message: str) -> int:
    """Print what is wrong, and give the exit status."""
    print(message, file=sys.stderr)
    return 1


def files(requirements: Iterable[str]) -> list[Path]:
    """The files on which an environment depends: pins, metadata, C sources, this script, and wheels given as files."""
    of_each = (
        f"{folder}/{n}"
        for folder in ("loader", "attach", "emulator", "measure", "native", "publish")
        for n in ("pyproject.toml", "version.py")
    )
    metadata = ("pyproject.toml", "hatch_build.py", *of_each, "attach/hatch_build.py", "attach/precast_attach.pth")
    native = sorted((ROOT / "loader" / "native").rglob("*.[ch]"))  # an editable install compiles the call path
    fixed = [CONSTRAINTS, *(ROOT / name for name in metadata), *native, Path(__file__)]
    return fixed + [Path(r) for r in requirements if r.endswith(".whl")]


def digest(folder: Path, words: Iterable[str], paths: Iterable[Path]) -> str:
    """The digest of what an environment is made from. The folder is part of it: environments cannot be moved."""
    parts = [str(folder), sys.version, *words, *(hashlib.sha256(p.read_bytes()).hexdigest() for p in paths)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def create(folder: Path) -> None:
    """An environment with the pinned pip; from this Python's own pip where it has no ensurepip."""
    python, pip = str(folder / "bin" / "python"), pinned("pip")
    if not (folder / "bin" / "pip").exists():
        if importlib.util.find_spec("ensurepip"):
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        elif importlib.util.find_spec("pip"):
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
            subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", pip], check=True)
        else:
            raise LookupError(f"{sys.executable} has neither ensurepip nor pip: install python3-venv, then try again")
    run_pip(folder, "install", pip)


def install(folder: Path, requirements: list[str], torch: bool) -> None:
    """The requirements; torch first, so that nothing else decides which build of it comes."""
    if torch:
        source = torch_source(os.environ.get("TORCH_INDEX", ""))
        requirement = pinned("torch")
        allowed = has_gpu() or os.environ.get("TORCH_CUDA") == "1" or installed(folder, "torch")
        if not allowed and not cpu_build_offered(folder, requirement, source):
            version = requirement.partition("==")[2]
            raise LookupError(NO_TORCH.format(version=version))
        run_pip(folder, "install", *source, requirement)
    if "-e" in requirements:
        run_pip(folder, "install", *map(pinned, BUILD_REQUIREMENTS))
    run_pip(folder, "install", "--no-build-isolation", *requirements)


def run_pip(folder: Path, *words: str) -> None:
    """One quiet pip command in the environment, under the constraints."""
    command = [str(folder / "bin" / "python"), "-m", "pip", "-q", "--no-input", "--disable-pip-version-check"]
    subprocess.run([*command, *words, "-c", str(CONSTRAINTS)], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


def pinned(name: str) -> str:
    """The requirement that constraints.txt has for a package."""
    match = re.search(rf"^{re.escape(name)}==[^\s;]+", CONSTRAINTS.read_text(), re.MULTILINE)
    if match is None:
        raise LookupError(f"constraints.txt does not pin {name}: run make lock")
    return match[0]


def torch_source(index: str) -> list[str]:
    """The pip options for where to find torch: an index's address, or a folder of wheels."""
    if not index:
        return []
    return ["--extra-index-url", index] if "://" in index else ["--find-links", str(Path(index).absolute())]


def cpu_build_offered(folder: Path, requirement: str, source: list[str]) -> bool:
    """Whether pip would choose a CPU build. Asks for the list of versions only: even a dry run downloads the wheels."""
    command = [str(folder / "bin" / "python"), "-m", "pip", "--no-input", "index", "versions", "--json"]
    answer = subprocess.run([*command, *source, "torch"], stdout=subprocess.PIPE, cwd=ROOT, check=False)
    versions = json.loads(answer.stdout or b"{}").get("versions", [])
    return is_cpu_build(chosen(versions, requirement.partition("==")[2]))


def chosen(versions: Iterable[str], wanted: str) -> str:
    """The build that ``==wanted`` picks from a list, newest first; one with a local label comes first."""
    return next((v for v in versions if v.partition("+")[0] == wanted), "")


def is_cpu_build(version: str) -> bool:
    """Whether a version of torch is a build without CUDA."""
    return version.partition("+")[2].startswith("cpu")


def installed(folder: Path, name: str) -> bool:
    """Whether the environment has a package already."""
    return any(folder.glob(f"lib/python3*/site-packages/{name}/__init__.py"))


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA device or at least its driver."""
    return bool(Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") or ctypes.util.find_library("cuda"))


if __name__ == "__main__":
    sys.exit(main())
