"""The resolver: makes a lock for a manifest's toolchain. Versions are chosen once, and kept until they are removed.

A toolchain has the compiler's libraries for one major version of CUDA. The loader must be able to launch the result, so
TVM-FFI has the versions that precast itself requires.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from precast.build.disk.memo import Memo, memo_key
from precast.build.disk.scratch import temporary_folder, write_atomically
from precast.build.errors import ManifestError, ToolchainError
from precast.build.interpreter import HERE
from precast.build.link.versions import DSL, LIBRARIES
from precast.build.plan.toolchain_spec import ToolchainSpec
from precast.build.toolchains.interpreter_info import inspect_interpreter
from precast.build.toolchains.lock import LIMIT, Lock
from precast.build.toolchains.uv import Sources, run_uv, words_of

_FFI = "apache-tvm-ffi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """Resolves the toolchains of manifests. Locks are kept below ``root``."""

    root: Path
    sources: Sources

    def python(self, spec: ToolchainSpec) -> str:
        """The Python program that creates a toolchain: the running one if it is allowed, or one that uv finds."""
        if spec.admits_python(HERE.version.rpartition(" ")[2]):
            return sys.executable
        notes = Memo(self.root / "notes")
        key = memo_key(spec.python)
        noted = notes.get("pythons", key)
        if isinstance(noted, str) and self._fits(spec, noted):
            return noted
        offline = ["--offline"] if self.sources.offline else []
        try:
            program = self._found(spec, *offline)
        except ToolchainError:
            try:
                run_uv("python", "install", *offline, spec.python)
                program = self._found(spec, *offline)
            except ToolchainError as error:
                raise ManifestError(
                    f"no Python {spec.python} is installed, and uv cannot install one:\n{error}\n"
                    "Install one and add it to the PATH, or choose an installed one ('uv python list')",
                    spec.location,
                ) from None
        notes.put("pythons", key, program)
        return program

    def _fits(self, spec: ToolchainSpec, program: str) -> bool:
        """Whether a program still exists, and its version is allowed."""
        try:
            return spec.admits_python(inspect_interpreter(program).number)
        except ToolchainError:
            return False

    def _found(self, spec: ToolchainSpec, *options: str) -> str:
        program = run_uv("python", "find", "--no-project", *options, spec.python).strip()
        if not self._fits(spec, program):
            raise ToolchainError(f"uv found {program}, which is not Python {spec.python}")
        return program

    def lock(self, spec: ToolchainSpec, python: str) -> Lock:
        """The lock of a toolchain: its file, or the versions that were chosen the first time."""
        if spec.lock is not None:
            return read_lock(spec.lock)
        request = [spec.dsl, spec.cuda, list(spec.requirements), _ffi()]
        kept = self.root / "locks" / f"{memo_key(request, inspect_interpreter(python).version)}.txt"
        try:
            return read_lock(kept)
        except ToolchainError:
            lock = self.resolve(spec, python)
        with contextlib.suppress(ToolchainError):
            return read_lock(kept)  # another build wrote it meanwhile
        write_atomically(kept, str(lock).encode())
        return lock

    def resolve(self, spec: ToolchainSpec, python: str) -> Lock:
        """Choose the versions; raises ManifestError at the toolchain, with uv's message."""
        others = [name for cuda, name in LIBRARIES.items() if cuda != spec.cuda]
        with temporary_folder() as folder:
            (folder / "none-of").write_text(words_of([f'{name}; python_version < "0"' for name in others]))
            (folder / "wanted").write_text(words_of(requirements(spec)))
            try:
                text = run_uv(
                    "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "--no-build", "--quiet",
                    "--python", python, "--override", folder / "none-of", *self.sources.options, folder / "wanted",
                )  # fmt: skip
            except ToolchainError as error:
                raise ManifestError(
                    f"the toolchain {spec} cannot be resolved:\n{error}\nCorrect the requirements, or name the folder "
                    "of missing wheels with --find-links; put contradictory requirements into two manifests",
                    spec.location,
                ) from None
        return Lock.parse(text, "uv")

    def forget(self, digest: str, python: str) -> None:
        """Remove the kept locks of an environment, so that its versions are chosen again."""
        for path in sorted((self.root / "locks").glob("*.txt")):
            with contextlib.suppress(ToolchainError, OSError):
                if read_lock(path).digest(python) == digest:
                    path.unlink()


def requirements(spec: ToolchainSpec) -> tuple[str, ...]:
    """The requirements for uv: the DSL for one CUDA version, TVM-FFI, and those of the manifest."""
    extra = "" if spec.cuda == min(LIBRARIES) else f"[cu{spec.cuda}]"
    pinned = f"=={spec.dsl}" if spec.dsl else ""
    return (f"{DSL}{extra}{pinned}", _ffi(), *spec.requirements)


def read_lock(path: Path) -> Lock:
    """Read the file of a lock; raises ToolchainError."""
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise ToolchainError(f"{path} cannot be read ({error.strerror}): correct its path") from None
    if len(data) > LIMIT:
        raise ToolchainError(f"{path} is larger than {LIMIT >> 20} MiB, and not a lock: correct its path")
    return Lock.parse(data.decode("utf-8", "replace"), str(path))


def _ffi() -> str:
    """Precast's own requirement of TVM-FFI."""
    for text in HERE.distribution("precast").requires or ():
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) == _FFI:
            return str(requirement)
    return _FFI
