"""The path of an aarch64 host, such as that of a GB200, walked on x86-64 by emulation: ``make aarch64``.

1. ``precast build`` of a manifest under emulation, and the same here.
2. The two caches are compared: for each variant the device code, the signature and the resources must be equal.
3. ``precast merge`` and ``precast wheel``: one wheel for each host.
4. The aarch64 wheel, and the loader's with native code, are installed in an environment without the compiler. Every
   variant is resolved, opened and called: without a GPU a call ends in NoCudaDevice.
5. Cubins are built here alone. Their wheel must contain no host code, and every cubin is called on both hosts.
6. With ``--tests``, rooms of the suite, such as ``tests/loader``.

The loader's native code for aarch64 is compiled under emulation. Everything is kept under ``.work/aarch64``, so that a
second run builds no kernel again. The first downloads 400 MB.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.aarch64.host_code import host_code
from tests.aarch64.system import REPOSITORY, System, checked, obstacle, wheels_of_this_tree

CUBINS, CUBIN_TARGET = REPOSITORY / "tests" / "aarch64" / "cubins.yaml", "sm_90a"
BUILDER = (sys.executable, "-m", "precast.cli.main")
TORCH = "torch==2.10.0"  # the newest whose wheel for aarch64 on PyPI comes without CUDA's libraries
TESTED_WITH = (
    TORCH, "torch-c-dlpack-ext", "sympy", "networkx", "jinja2", "fsspec", "filelock", "setuptools", "jsonschema",
    "numpy", "hypothesis", "pytest",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Walk the path; 0 where every step did what it should, or where nothing can be emulated, which is told."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path, default=REPOSITORY / "manifests" / "default.yaml")
    parser.add_argument("--target", default="sm_100a")
    parser.add_argument("--work", type=Path, default=REPOSITORY / ".work" / "aarch64")
    parser.add_argument("--tests", nargs="*", default=[], metavar="ROOM", help="such as tests/loader")
    options = parser.parse_args(argv)
    reason = obstacle()
    if reason:
        print(f"skipped: {reason}")
        return 0
    begin = time.perf_counter()
    path = Walk(options.work.absolute(), begin)
    path.prepare()
    path.build(options.manifest, options.target)
    path.compare()
    path.deploy(options.target)
    path.cubins()
    return path.test(options.tests) if options.tests else 0


class Walk:
    """The steps, each of which tells when it is done."""

    def __init__(self, work: Path, begin: float) -> None:
        self.work, self.begin = work, begin
        self.system = System(work / "root")
        self.wheels, self.dist = work / "wheels", work / "dist"
        self.caches = {"x86_64": work / "cache-x86_64", "aarch64": work / "root" / "tmp" / "cache"}

    def say(self, text: str) -> None:
        """One line, with the seconds since the beginning."""
        print(f"[{time.perf_counter() - self.begin:6.1f} s] {text}", flush=True)

    def prepare(self) -> None:
        """The system, and its environments."""
        self.system.make()
        self.wheels.mkdir(parents=True, exist_ok=True)
        loaders = wheels_of_this_tree(self.system, self.wheels)
        self.say(f"compiled, and packed: {_listed(loaders)}")
        self.system.environment("builder", "precast", "precast-loader", wheels=self.wheels)
        done = self.system.run("/bin/sh", "-c", "uname -m; ldd --version | head -1; gcc --version | head -1")
        self.say(f"a system of {', '.join(done.stdout.split(chr(10))[:3])}")

    def build(self, manifest: Path, target: str) -> None:
        """The manifest, there and here."""
        inside = self.system.root / "tmp" / manifest.name
        shutil.copy(manifest, inside)
        options = ["--target", target, "-j", "1", "--timeout", "3000"]
        here = [*BUILDER, "build", str(manifest), "-o", str(self.caches["x86_64"]), *options]
        done = subprocess.run(here, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        self.say(f"built here: {done.stdout.splitlines()[-1]}")
        words = [*BUILDER[1:], "build", f"/tmp/{manifest.name}", "-o", "/tmp/cache", *options]
        done = self.system.run(self.system.python("builder"), *words)
        assert done.returncode == 0, done.stderr[-3000:]
        self.say(f"built under emulation: {done.stdout.splitlines()[-1]}")

    def compare(self) -> None:
        """What must not depend on the host."""
        from precast.build.link import elf
        from precast.loader.contract.format.config import to_json
        from precast.loader.resolve.cache import Cache

        found: dict[tuple[str, str, str], dict[str, object]] = {}
        for host, folder in self.caches.items():
            cache = Cache(folder)
            for op in cache.index.ops:
                for one in cache.op(op).artifacts:
                    assert one.host is not None and one.host.arch == host
                    name = (op, str(one.target), repr({k: to_json(v) for k, v in one.config.items()}))
                    told = (one.signature, one.resources, elf.embedded(cache.read(one.blob)))
                    found.setdefault(name, {})[host] = told
        for name, hosts in found.items():
            assert len(hosts) == 2, f"{name} is only for {', '.join(hosts)}"
            assert hosts["x86_64"] == hosts["aarch64"], f"{name} differs between the hosts"
        self.say(f"device code, signatures and resources are equal on both hosts; variants: {len(found)}")

    def deploy(self, target: str) -> None:
        """One cache, two wheels, and that of aarch64 in an environment without the compiler."""
        checked([*BUILDER, "merge", *map(str, self.caches.values()), "-o", str(self.work / "merged")])
        made = self._pack(self.work / "merged")
        self.say(f"merged, and packed: {_listed(made)}")
        self._launch_there("deployment", made, target)

    def cubins(self) -> None:
        """A cache of cubins: its one wheel contains no host code, and both hosts load it."""
        cache, scratch = self.work / "cubins", self.work / "unpacked"
        checked([*BUILDER, "build", str(CUBINS), "--emit", "cubin", "--target", CUBIN_TARGET, "-o", str(cache)])
        made = self._pack(cache)
        (wheel,) = made
        assert wheel.name.endswith("-py3-none-any.whl"), wheel.name
        shutil.rmtree(scratch, ignore_errors=True)
        hosts, devices = host_code(wheel, scratch)
        assert devices and not hosts, f"host code in {hosts}"
        self.say(f"{_listed(made)}: {devices} ELF files for GPUs, and none for a host")
        self._launch_there("cubins", made, CUBIN_TARGET)
        self._launch_here(wheel, CUBIN_TARGET)

    def _pack(self, cache: Path) -> list[Path]:
        shutil.rmtree(self.dist, ignore_errors=True)
        checked([*BUILDER, "wheel", str(cache), "-o", str(self.dist)])
        return sorted(self.dist.glob("*.whl"))

    def _launch_there(self, environment: str, wheels: list[Path], target: str) -> None:
        """Install the wheels of a cache in a new environment under emulation, and call every variant."""
        shutil.rmtree(self.system.root / "opt" / environment, ignore_errors=True)
        for wheel in wheels:
            shutil.copy(wheel, self.wheels)
        name = wheels[0].name.split("-")[0].replace("_", "-")
        self.system.environment(environment, "precast-loader", name, wheels=self.wheels)
        for wheel in wheels:
            (self.wheels / wheel.name).unlink()
        done = self.system.run(self.system.python(environment), "/src/tests/aarch64/launch_all.py", target)
        assert done.returncode == 0, done.stderr[-3000:]
        self.say(done.stdout.strip())

    def _launch_here(self, wheel: Path, target: str) -> None:
        """The same in a new environment of this machine."""
        checked([sys.executable, "-m", "venv", "--clear", str(self.work / "environment")])
        python = str(self.work / "environment" / "bin" / "python")
        pins = ["-c", str(REPOSITORY / "constraints.txt"), "--find-links", str(self.wheels)]
        checked([python, "-m", "pip", "install", "--quiet", *pins, "precast-loader", str(wheel)])
        self.say(checked([python, str(REPOSITORY / "tests" / "aarch64" / "launch_all.py"), target]).strip())

    def test(self, rooms: list[str]) -> int:
        """Rooms of the suite; the exit status of pytest."""
        self.system.environment("tests", "precast", "precast-loader", *TESTED_WITH, wheels=self.wheels)
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *rooms]
        inside = f"cd /src && exec {self.system.python('tests')} {' '.join(words)}"
        done = self.system.run("/bin/sh", "-c", inside, PYTHONDONTWRITEBYTECODE="1")
        print(done.stdout[-6000:], done.stderr[-2000:])
        self.say(f"{' '.join(rooms)}: exit status {done.returncode}")
        return done.returncode


def _listed(wheels: list[Path]) -> str:
    return ", ".join(f"{wheel.name} ({wheel.stat().st_size / 1000:.0f} kB)" for wheel in wheels)


if __name__ == "__main__":
    sys.exit(main())
