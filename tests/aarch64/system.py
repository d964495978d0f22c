"""A small aarch64 system in a folder, whose programs an x86-64 machine runs by emulation.

The system is Debian's, unpacked and not installed. Its programs run in a namespace of their own, which alone knows the
emulator: nothing on the machine is changed, and nothing in the system can tell that it is emulated.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
SUITE, PYTHON = "bookworm", "3.11"
PACKAGES = "python3,python3-dev,python3-venv,gcc,libc6-dev,binutils"
EMULATOR = "qemu-aarch64-static"
PROGRAMS = {EMULATOR: "qemu-user-static", "debootstrap": "debootstrap", "dpkg-deb": "dpkg", "unshare": "util-linux"}
PLATFORMS = ("manylinux2014_aarch64", *(f"manylinux_2_{glibc}_aarch64" for glibc in (17, 24, 26, 27, 28, 31, 34)))
_KERNEL = (6, 7)  # the first whose namespaces have emulators of their own

# An ELF file for aarch64, executable or shared: the bytes that it begins with, and the bits of them that count.
_MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
_MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe" + r"\xff" * 3
# In the namespace such files are given to the emulator. F: it is opened now, before the root changes.
_ENTER = rf"""
set -e
root=$1; sources=$2; shift 2
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
emulator=$(command -v {EMULATOR})
printf '%s' ':aarch64:M::{_MAGIC}:{_MASK}:'"$emulator"':F' > /proc/sys/fs/binfmt_misc/register
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind "$sources" "$root/src"
exec chroot "$root" "$@"
"""


def obstacle() -> str | None:
    """Why nothing can be emulated here, with what to do, or None."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"this is {platform.system()} on {platform.machine()}: aarch64 is emulated on Linux on x86-64"
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        return f"not installed: {', '.join(missing)}; on Debian and Ubuntu: apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        return "debootstrap makes a system as root alone: run as root"
    if tuple(int(part) for part in platform.release().split(".")[:2]) < _KERNEL:
        return f"this is Linux {platform.release()}: emulators of a namespace need 6.7 or newer"
    return None


@dataclass(frozen=True)
class System:
    """The system in a folder."""

    root: Path

    def make(self) -> None:
        """Make the system where there is none; one that was interrupted leaves nothing that is taken for one."""
        if self.root.is_dir():
            return
        begun = self.root.with_name(f"{self.root.name}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        begun.parent.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", f"--include={PACKAGES}", SUITE]
        checked([*command, str(begun)])
        for package in sorted(begun.glob("var/cache/apt/archives/*.deb")):
            checked(["dpkg-deb", "-x", str(package), str(begun)])
        for file, line in {"passwd": "root:x:0:0:root:/root:/bin/sh", "group": "root:x:0:"}.items():
            (begun / "etc" / file).write_text(f"{line}\n")
        for folder in ("src", "proc", "dev", "tmp", "opt"):
            (begun / folder).mkdir(exist_ok=True)
        begun.rename(self.root)

    def run(self, *command: str, timeout: float | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the system, with this repository at ``/src``."""
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ENTER, "enter"]
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **variables}
        command = (*inside, str(self.root.absolute()), str(REPOSITORY), *command)
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        assigned = [f"{name}={value}" for name, value in environment.items()]
        split = command.index(str(REPOSITORY)) + 1
        command = (*command[:split], "/usr/bin/env", "-i", *assigned, *command[split:])
        return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, timeout=timeout, check=False)

    def python(self, environment: str) -> str:
        """The interpreter of an environment, as the system names it."""
        return f"/opt/{environment}/bin/python"

    def environment(self, name: str, *requirements: str, wheels: Path) -> None:
        """Make an environment, and put wheels for aarch64 into it."""
        site = self.root / "opt" / name / "lib" / f"python{PYTHON}" / "site-packages"
        if not site.is_dir():
            done = self.run("/usr/bin/python3", "-m", "venv", "--without-pip", f"/opt/{name}")
            assert done.returncode == 0, done.stderr
        pins = self.root.with_name("constraints.txt")
        pins.write_text("\n".join(constraints((REPOSITORY / "constraints.txt").read_text())) + "\n")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--upgrade",
            "--only-binary=:all:",
            "-c",
            str(pins),
        ]
        command += [word for each in PLATFORMS for word in ("--platform", each)]
        command += [
            "--python-version",
            PYTHON,
            "--implementation",
            "cp",
            "--find-links",
            str(wheels),
            "--target",
            str(site),
        ]
        native = ".".join(map(str, sys.version_info[:2])) == PYTHON
        checked([*command, *([] if native else ["--no-compile"]), *requirements])
        if not native:  # without byte code the compiler's import takes minutes
            self.run(self.python(name), "-m", "compileall", "-q", str(site).removeprefix(str(self.root)))


def constraints(text: str) -> list[str]:
    """The pins that hold on aarch64. Those of torch and what only it needs are left out: see ``TORCH`` of ``run.py``.

    >>> constraints("a==1 ; platform_machine == 'aarch64'\\nb==2 ; platform_machine != 'aarch64'\\ntorch==2.13.0")
    ['a==1']
    """
    there = {
        "platform_machine": "aarch64", "sys_platform": "linux", "python_version": PYTHON,
        "python_full_version": f"{PYTHON}.2",
    }  # fmt: skip
    found = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pin = Requirement(line)
        if pin.name != "torch" and (pin.marker is None or pin.marker.evaluate(there)):
            found.append(f"{pin.name}{pin.specifier}")
    return found


def checked(command: Sequence[str]) -> str:
    """Run a command of this machine; what it prints. That is the error, too."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])}... failed:\n{(done.stderr or done.stdout)[-3000:]}")
    return done.stdout


def wheels_of_this_tree(system: System, folder: Path) -> list[Path]:
    """Make the builder's wheel in a folder, and the loader's with native code for both hosts; the loader's."""
    for old in folder.glob("precast*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    checked(["env", "PRECAST_NATIVE=1", *command, str(REPOSITORY / "loader"), str(REPOSITORY)])
    system.environment("packer", "hatchling", "apache-tvm-ffi", wheels=folder)
    made = system.root / "tmp" / "dist"
    shutil.rmtree(made, ignore_errors=True)
    inside = f"cd /src/loader && exec {system.python('packer')} -m hatchling build -t wheel -d /tmp/dist"
    done = system.run("/bin/sh", "-c", inside, PRECAST_NATIVE="1", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr[-3000:]
    for wheel in made.glob("*.whl"):
        shutil.copy(wheel, folder)
    return sorted(folder.glob("precast_loader-*.whl"))
