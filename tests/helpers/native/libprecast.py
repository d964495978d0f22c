"""libprecast in a process of its own: compiled with sanitizers where gcc has them, asked a line at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.machine.machine import Machines
from precast.loader.resolve.candidate import Request
from precast.native import libprecast as libprecast_module
from precast.native.frozen_table import freeze, write_table
from precast.native.libprecast import COMPILE, HEADER, compile_sources, sources, write_library
from precast.native.tables import tables
from tests.helpers.caches import NATIVE, ffi_folder
from tests.helpers.native.compiled import kept

OK, WRONG_REQUEST, CACHE_ERROR, INTEGRITY_ERROR, OP_NOT_FOUND, VARIANT_NOT_FOUND, LOAD_ERROR, NO_CUDA_DEVICE = range(8)
WRONG_DEVICE, LAUNCH_ERROR = 8, 9
SANITIZERS = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")


ERRORS: dict[int, type[loader.PrecastError]] = {
    WRONG_REQUEST: loader.ConfigError,
    CACHE_ERROR: loader.CacheError,
    INTEGRITY_ERROR: loader.IntegrityError,
    OP_NOT_FOUND: loader.OpNotFound,
    VARIANT_NOT_FOUND: loader.VariantNotFound,
    LOAD_ERROR: loader.LoadError,
    NO_CUDA_DEVICE: loader.NoCudaDevice,
}
"""What the Python loader raises where libprecast returns a status."""


@dataclass(frozen=True)
class Answer:
    """A status of ``precast.h``, and the key of what was chosen, or the text."""

    status: int
    text: str

    def value(self) -> str:
        """The text, where it is none of an error; else the error is raised that the Python loader would raise."""
        if self.status:
            raise ERRORS[self.status](self.text)
        return self.text


@dataclass
class LibprecastReader:
    """A running reader; its environment is that at the first question."""

    program: Path
    _process: subprocess.Popen[str] | None = field(default=None)

    def ask(
        self,
        folder: Path | str,
        op: str = "scale",
        config: Mapping[str, Any] | str | None = None,
        *,
        command: str = "get",
        target: str | None = "sm_90a",
        problem: Mapping[str, int] | str | None = None,
        sha256: str = "",
        cuda: Path | str = "no-such-libcuda.so",
        device: int = 0,
        arguments: str = "",
    ) -> Answer:
        """Open a folder, request a kernel, close it; with the command ``call``, call it, as ``reader.c`` says."""
        text = config if isinstance(config, str) else json.dumps(config or {})
        sizes = problem if isinstance(problem, str) else "" if problem is None else json.dumps(problem)
        asked = (command, folder, sha256, cuda, op, text, sizes, target or "", device or "", arguments)
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        line = "\x1f".join(map(str, asked))
        assert "\n" not in line
        process.stdin.write(line + "\n")
        process.stdin.flush()
        status, _, said = process.stdout.readline().rstrip("\n").partition("\x1f")
        if not status:
            self.close()
            raise AssertionError(f"the reader died of {asked}")
        return Answer(int(status), said.replace("\x1e", "\n"))

    def opened(self) -> bool:
        """Whether it has opened a library of a folder."""
        return self._process is not None and "precast:" in Path(f"/proc/{self._process.pid}/maps").read_text()

    def close(self) -> None:
        """End it; sanitizers, also that of leaks, must have found nothing."""
        if self._process is not None:
            process, self._process = self._process, None
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0 and not errors, errors[-6000:]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = {**os.environ, "PRECAST_TVM_FFI": str(ffi_folder() / "lib" / "libtvm_ffi.so")}
            environment["ASAN_OPTIONS"] = "allocator_may_return_null=1"
            self._process = subprocess.Popen(
                [self.program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="surrogateescape",
                env=environment,
            )
        return self._process


def frozen(
    cache: Path,
    folder: Path,
    *requests: Request,
    targets: Iterable[str] = ("sm_90a",),
    machines: Machines | None = None,
) -> Path:
    """The folder that ``precast native`` makes of a cache for some requests."""
    described = machines or Machines()
    write_table(freeze([cache], requests, [described.for_target(target) for target in targets]), folder)
    return folder


def request(
    op: str = "scale", config: Mapping[str, Any] | None = None, problem: Mapping[str, int] | None = None
) -> Request:
    return Request(op=op, config=config or {}, problem=problem)


@cache
def reader_program(folder: Path, *, plain: bool = False) -> Path:
    """The compiled reader, with sanitizers where gcc has them, unless a ``plain`` one is asked for."""
    checks = () if plain or not has_sanitizers(folder) else SANITIZERS
    arguments = (NATIVE / "reader.c", *checks, "-ldl", "-lpthread", "-lm")
    return kept(["reader", *checks, *_inputs()], lambda path: compile_sources(path, arguments))


def libprecast_files(folder: Path) -> Path:
    """A folder with what ``precast native`` writes: the library, its header, its file for pkg-config."""
    shutil.copytree(kept(["library", *_inputs()], write_library), folder, symlinks=True, dirs_exist_ok=True)
    return folder


def _inputs() -> list[str | Path]:
    """All that libprecast is made from."""
    rooms = {path.parent for path in sources()} | {HEADER.parent, NATIVE}
    files = sorted(file for room in rooms for file in room.glob("*.[ch]"))
    return [*COMPILE, *map(str, tables().items()), Path(libprecast_module.__file__), *files]


@cache
def has_sanitizers(folder: Path) -> bool:
    """Whether gcc can link its sanitizers here."""
    source = folder / "none.c"
    source.write_text("int main(void) { return 0; }\n")
    done = subprocess.run(["gcc", *SANITIZERS, source, "-o", folder / "none"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that asks libprecast."""
    return reader_program(tmp_path_factory.mktemp("libprecast"))


@pytest.fixture
def libprecast(program: Path) -> Iterator[LibprecastReader]:
    """libprecast in a process of its own, whose sanitizers must find nothing."""
    reader = LibprecastReader(program)
    yield reader
    reader.close()
