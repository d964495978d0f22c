"""Writes small caches for tests: real libraries, compiled by gcc, laid out as a builder lays them out."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from precast.loader.contract.format.artifact import Artifact, Blob, Host
from precast.loader.contract.format.config import Key, canonical, to_value
from precast.loader.contract.format.index import Index, OpEntry, OpIndex, Runtime, digest, encode
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.signature import Argument, Signature, Symbol
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from tests.helpers.native.compiled import kept

NATIVE = Path(__file__).parent / "native"
HOST = Host(arch=platform.machine(), glibc="2.17")
# A test puts another number for the mark, which therefore stands in the library as it is on every processor.
NUMBER_SOURCE = "static const volatile int mark = 0x5A3C7E11; int precast_test_number(void) { return mark; }\n"
NUMBER_MARK = (0x5A3C7E11).to_bytes(4, "little")
SCALE_KEYS = (
    Key(name="dtype", type="dtype"),
    Key(name="layout", type="str", has_default=True, default="row"),
    Key(name="threads", type="int", tuned=True, has_default=True, default=128),
)


def ffi_folder() -> Path:
    """The folder of the tvm_ffi package, which is not imported."""
    spec = importlib.util.find_spec("tvm_ffi")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def compiler(*arguments: str | Path) -> None:
    """Run gcc with arguments that hold ``-o`` and a path; its output is the error. Headers beside a source count."""
    place = arguments.index("-o")
    output, inputs = Path(arguments[place + 1]), (*arguments[:place], *arguments[place + 2 :])
    files = [one for one in inputs if isinstance(one, Path)]
    headers = sorted({header for file in files if file.suffix == ".c" for header in file.parent.glob("*.h")})

    def make(path: Path) -> None:
        command = ["gcc", "-shared", "-fPIC", "-O1", *inputs, "-o", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    shutil.copy(kept([*(str(getattr(one, "name", one)) for one in inputs), *files, *headers], make), output)


@dataclass(frozen=True)
class Native:
    """Compiles the libraries of a test into one folder, each once."""

    folder: Path

    def runtime(self, factor: int = 2) -> tuple[str, bytes]:
        """A runtime library whose entries multiply by ``factor``: its SONAME and its bytes."""
        soname = f"libprecast-rt-{factor:016x}.so"
        path = self.folder / soname
        if not path.exists():
            compiler(NATIVE / "runtime.c", f"-DPRECAST_TEST_FACTOR={factor}", f"-Wl,-soname,{soname}", "-o", path)
        return soname, path.read_bytes()

    def entry(self, name: str = "scale", offset: int = 0, factor: int = 2) -> bytes:
        """A library with the entry ``__tvm_ffi_<name>``, linked as a builder links it."""
        soname, _ = self.runtime(factor)
        path = self.folder / f"{name}-{offset}-{factor}.so"
        if not path.exists():
            include, libraries = ffi_folder() / "include", ffi_folder() / "lib"
            defines = (f"-DPRECAST_TEST_ENTRY=__tvm_ffi_{name}", f"-DPRECAST_TEST_OFFSET={offset}")
            needs = (self.folder / soname, libraries / "libtvm_ffi.so")
            compiler(NATIVE / "entry.c", f"-I{include}", *defines, "-o", path, *needs)
        return path.read_bytes()

    def echo(self) -> bytes:
        """A library whose entry ``__tvm_ffi_echo`` describes its arguments."""
        path = self.folder / "echo.so"
        if not path.exists():
            compiler(NATIVE / "echo.c", f"-I{ffi_folder() / 'include'}", "-o", path, ffi_folder() / "lib/libtvm_ffi.so")
        return path.read_bytes()

    def launches(self) -> Path:
        """A stand-in for libcuda.so.1 that records launches."""
        path = self.folder / "libcuda-launches.so"
        if not path.exists():
            compiler(NATIVE / "launches.c", "-o", path)
        return path

    def driver(self) -> Path:
        """A stand-in for libcuda.so.1."""
        path = self.folder / "libcuda-fake.so"
        if not path.exists():
            compiler(NATIVE / "driver.c", "-o", path)
        return path


@cache
def signature(dtype: str) -> Signature:
    """What the entries say they take."""
    vectors = [Argument(name=n, kind="tensor", dtype=dtype, shape=("n",), alignment=16) for n in ("x", "y")]
    factor = Argument(name="factor", kind="scalar", dtype="float32")
    stream = Argument(name="stream", kind="env_stream")
    return Signature(arguments=(*vectors, factor, stream), symbols={"n": Symbol(dtype="int32", divisibility=8)})


def blob_of(data: bytes, encoding: str = "zstd", dictionary: bytes | None = None) -> tuple[Blob, bytes]:
    """The description of some bytes, and the bytes as they are stored."""
    if encoding == "raw":
        stored = data
    else:
        words = zstandard.ZstdCompressionDict(dictionary) if encoding == "zstd+dictionary" and dictionary else None
        stored = zstandard.ZstdCompressor(level=3, dict_data=words).compress(data)
    return Blob(sha256=digest(data), size=len(data), stored=len(stored), encoding=encoding), stored


def artifact(
    blob: Blob, config: Mapping[str, Any], target: str = "sm_90a", *, symbol: str = "__tvm_ffi_scale", **more: Any
) -> Artifact:
    """An artifact with a key of its own."""
    values = {name: to_value(value) for name, value in config.items()}
    facts = {"kind": "object", "host": HOST, **more}
    host = facts["host"].to_json() if facts["host"] else None
    identity = canonical([dict(config), target, facts["kind"], host, blob.sha256])
    return Artifact(
        key=hashlib.sha256(identity).hexdigest(),
        config=values,
        target=Target.parse(target),
        blob=blob,
        symbol=symbol,
        signature=signature(str(config.get("dtype", "float32"))),
        **facts,
    )


def reader_of(index: OpIndex, **changes: Any) -> OpReader:
    """A reader of an op's file, with other values under some of its keys."""
    return OpReader.decode(encode({**json.loads(index.encode()), **changes}), op=index.op)


@dataclass
class CacheWriter:
    """Collects blobs and artifacts, and writes them as a cache directory."""

    name: str = "demo"
    toolchain: dict[str, str] = field(default_factory=lambda: {"apache-tvm-ffi": "0.1.15"})
    runtimes: list[Runtime] = field(default_factory=list)
    dictionary: tuple[Blob, bytes] | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    ops: dict[str, OpIndex] = field(default_factory=dict)
    companions: Blob | None = None

    def keep(self, data: bytes, encoding: str = "zstd") -> Blob:
        """Store some bytes."""
        blob, stored = blob_of(data, encoding, self.dictionary[1] if self.dictionary else None)
        self.blobs[blob.sha256] = stored
        return blob

    def use_dictionary(self, data: bytes) -> None:
        """Keep a dictionary, which later blobs may use."""
        self.dictionary = (self.keep(data, "raw"), data)

    def runtime(self, soname: str, code: bytes, host: Host = HOST) -> None:
        """Keep a runtime library."""
        self.runtimes.append(Runtime(soname=soname, host=host, blob=self.keep(code)))

    def op(self, op: str, artifacts: Iterable[Artifact], keys: tuple[Key, ...] = SCALE_KEYS) -> None:
        """List the artifacts of an op."""
        self.ops[op] = OpIndex.of(op=op, keys=keys, doc="", artifacts=tuple(artifacts))

    def write(self, path: Path) -> Path:
        """Write the cache."""
        (path / "ops").mkdir(parents=True, exist_ok=True)
        (path / "blobs").mkdir(exist_ok=True)
        entries = {}
        for name, listed in self.ops.items():
            data = listed.encode()
            (path / "ops" / f"{name}.json").write_bytes(data)
            entries[name] = OpEntry(sha256=digest(data), size=len(data), artifacts=len(listed.artifacts))
        for sha256, stored in self.blobs.items():
            (path / "blobs" / sha256).write_bytes(stored)
        index = Index(
            name=self.name,
            toolchain=self.toolchain,
            runtimes=tuple(self.runtimes),
            ops=entries,
            dictionary=self.dictionary[0] if self.dictionary else None,
            companions=self.companions,
        )
        (path / "index.json").write_bytes(index.encode())
        return path


def demo(native: Native, *, name: str = "demo", factor: int = 2, offset: int = 0) -> CacheWriter:
    """Op ``scale`` for three dtypes and two targets, two tunings each; and ``twice``, which takes no config."""
    writer = CacheWriter(name=name)
    writer.runtime(*native.runtime(factor))
    rows = []
    for place, dtype in enumerate(("bfloat16", "float16", "float32")):
        for rank, threads in enumerate((256, 128)):
            code = native.entry("scale", offset=offset + 10 * place + rank, factor=factor)
            for target in ("sm_90a", "sm_100a"):
                config = {"dtype": dtype, "layout": "row", "threads": threads}
                rows.append(artifact(writer.keep(code), config, target, rank=rank))
    writer.op("scale", rows)
    twice = artifact(writer.keep(native.entry("twice", factor=factor)), {}, "sm_90", symbol="__tvm_ffi_twice")
    writer.op("twice", [replace(twice, signature=signature("float32"))], keys=())
    return writer


def echo_cache(native: Native, folder: Path) -> tuple[Cache, Artifact]:
    """A cache with an entry that does what its first argument says."""
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    signature = Signature(
        arguments=tuple(Argument(name=name, kind="scalar", dtype="int64") for name in ("wish", "x", "y"))
    )
    echo = artifact(writer.keep(native.echo()), {}, symbol="__tvm_ffi_echo")
    writer.op("echo", [replace(echo, signature=signature)], keys=())
    cache = Cache(writer.write(folder))
    return cache, cache.op("echo").artifacts[0]


def gives_away() -> bool:
    """Whether this process may give files to other users: root may, but not in a namespace that knows no others."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, 4711, -1)
        except OSError:
            return False
    return True


def run_alone(code: str, cache: Path, warnings: str = "error") -> None:
    """Run a script on a cache in a process of its own, where every warning is an error, or what ``warnings`` says."""
    environment = {**os.environ, "PRECAST_CACHE_PATH": str(cache), "PYTHONWARNINGS": warnings}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
