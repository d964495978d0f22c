"""The bundle: cache wheels, the loader and its dependencies, in one folder that installs without a network."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from precast.build.disk.output_folder import check_output_folder
from precast.publish.errors import BundleError

_PYTHON = re.compile(r"3\.[0-9]{1,2}", re.ASCII)
_PLATFORM = re.compile(r"manylinux_2_([0-9]{1,2})_(x86_64|aarch64)", re.ASCII)
_OLDEST = 28
_ALIASES = {17: "manylinux2014"}

INSTALL = """\
#!/bin/sh
# Installs the wheels beside this file and nothing else, without a network. PYTHON chooses the interpreter.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
"${PYTHON:-python3}" -m pip install --no-index --find-links "$here" --require-hashes -r "$here/requirements.txt" "$@"
"""

README = """\
Prebuilt kernels, their loader and its dependencies, for Python {python} on {platform}.

    sh install.sh                                      into the environment of python3; needs pip, no network
    PYTHON=/opt/venv/bin/python sh install.sh          into another one

requirements.txt pins every wheel by its SHA-256; pip refuses one that was changed. To pin the caches at run time too:

    export PRECAST_PIN={pins}

It holds:

{listing}
"""


@dataclass(frozen=True, slots=True, order=True)
class File:
    """One wheel of a bundle."""

    name: str
    version: str
    path: Path

    @classmethod
    def of(cls, path: Path) -> File:
        """Read a wheel's file name.

        >>> File.of(Path("precast_loader-0.1.0-py3-none-any.whl")).version
        '0.1.0'
        """
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            raise BundleError(f"{path} is not a wheel: name a file that 'precast wheel' wrote") from None
        return cls(name, str(version), path)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def bundle(
    wheels: Sequence[Path], folder: Path, *, python: str, platform: str = "", find_links: Sequence[Path] = ()
) -> tuple[File, ...]:
    """Collect wheels and their dependencies in a new or empty folder, and write a script that installs them.

    Parameters
    ----------
    wheels
        Cache wheels.
    folder
        The folder for the wheels.
    python
        The Python version of the target machine, such as ``3.12``.
    platform
        Its platform, such as ``manylinux_2_28_x86_64``; that of the first cache wheel if not given.
    find_links
        Folders with further wheels, such as a ``precast-loader`` that no index has.
    """
    if _PYTHON.fullmatch(python) is None:
        raise BundleError(f"{python!r} is not a version of Python: write it like 3.12")
    check_output_folder(folder)
    files = [File.of(wheel) for wheel in wheels]
    platform = platform or platform_of(files[0].path)
    if folder.exists() and any(folder.iterdir()):
        raise BundleError(f"{folder} is not empty: choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, "--dest", str(folder)]
    tag = f"cp{python.replace('.', '')}"
    command += [word for abi in (tag, "abi3", "none") for word in ("--abi", abi)]
    command += [word for name in platforms(platform) for word in ("--platform", name)]
    if tuple(map(int, python.split("."))) < (3, 14):
        command.append("zstandard>=0.23")  # pip evaluates markers for this Python, not for that of the target machine
    command += [word for links in find_links for word in ("--find-links", str(links))]
    done = subprocess.run([*command, *(str(f.path) for f in files)], capture_output=True, text=True, check=False)
    if done.returncode:
        detail = done.stderr.strip()[-3000:]
        raise BundleError(
            f"pip could not collect the wheels for Python {python} on {platform}:\n{detail}\n"
            "Name folders of missing wheels with --find-links, or choose another --python or --platform"
        )
    collected = tuple(sorted(File.of(path) for path in folder.glob("*.whl")))
    _write(folder, collected, python, platform)
    return collected


def platform_of(wheel: Path) -> str:
    """The platform of a cache wheel, or the oldest one that the loader's dependencies support if that is newer."""
    *_, tags = parse_wheel_filename(wheel.name)
    for tag in sorted(tags, key=str):
        if match := _PLATFORM.fullmatch(tag.platform):
            return f"manylinux_2_{max(_OLDEST, int(match[1]))}_{match[2]}"
    return f"manylinux_2_{_OLDEST}_x86_64"


def platforms(platform: str) -> list[str]:
    """A platform and all older ones that it can run, the newest first.

    >>> platforms("manylinux_2_18_x86_64")
    ['manylinux_2_18_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64']
    """
    match = _PLATFORM.fullmatch(platform)
    if match is None:
        raise BundleError(f"{platform!r} is not a platform: write it like manylinux_2_28_x86_64")
    minors = range(max(17, int(match[1])), 16, -1)
    names = [f"manylinux_2_{minor}_{match[2]}" for minor in minors]
    return names + [f"{alias}_{match[2]}" for minor, alias in _ALIASES.items() if minor in minors]


def _write(folder: Path, files: Sequence[File], python: str, platform: str) -> None:
    pinned = [f"{f.name}=={f.version} --hash=sha256:{f.sha256}" for f in files]
    (folder / "requirements.txt").write_text("\n".join(pinned) + "\n")
    (folder / "install.sh").write_text(INSTALL)
    (folder / "install.sh").chmod(0o755)
    pins = ",".join(pin for f in files for pin in _pins(f))
    listing = "\n".join(f"    {f.path.stat().st_size:>10}  {f.path.name}" for f in files)
    (folder / "README.txt").write_text(README.format(python=python, platform=platform, pins=pins, listing=listing))


def _pins(file: File) -> list[str]:
    """The pin of a cache wheel: its name and the digest of its index."""
    prefix = "precast-cache-"
    if not file.name.startswith(prefix):
        return []
    module = file.name.replace("-", "_")
    with zipfile.ZipFile(file.path) as archive:
        index = archive.read(f"{module}/index.json")
    return [f"{file.name.removeprefix(prefix)}={hashlib.sha256(index).hexdigest()}"]
