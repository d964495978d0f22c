"""Every single bit of a small cache is flipped, and every file cut at every length.

In an op's file and in a blob each flip is noticed. In the index a flip may leave a valid index of another name; with a
pin each flip of it is noticed, too. Never is another library opened than the one that was asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast import loader
from precast.loader.contract.format.index import digest
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import CacheWriter, artifact, compiler

# The least that is a shared library: the reader sees bytes, and a flip costs the same in each.
TINY = ["-nostdlib", "-Wl,--build-id=none,--hash-style=gnu,-z,norelro,-z,noseparate-code,-s", "-Wl,--exclude-libs,ALL"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    source, soname = folder / "tiny.c", "libprecast-rt-00000000000000aa.so"
    source.write_text("int precast_test(void) { return 5; }\n")
    compiler(source, *TINY, f"-Wl,-soname,{soname}", "-o", folder / soname)
    source.write_text("int precast_test(void); int __tvm_ffi_scale(void) { return precast_test() + 2; }\n")
    compiler(source, *TINY, "-o", folder / "variant.so", folder / soname)
    writer = CacheWriter(name="small")
    writer.runtime(soname, (folder / soname).read_bytes())
    blob = writer.keep((folder / "variant.so").read_bytes())
    writer.op("scale", [artifact(blob, {"dtype": "bfloat16", "layout": "row", "threads": 1})])
    return writer.write(folder / "cache")


def flips(file: Path) -> Iterator[int]:
    """Flip each bit of a file in turn; it is as it was in the end."""
    handle = os.open(file, os.O_RDWR)
    try:
        whole = file.read_bytes()
        for place, byte in enumerate(whole):
            for bit in range(8):
                os.pwrite(handle, bytes([byte ^ 1 << bit]), place)
                yield place * 8 + bit
            os.pwrite(handle, bytes([byte]), place)
    finally:
        os.close(handle)
    assert file.read_bytes() == whole


def test_every_bit_of_the_blobs(small: Path) -> None:
    cache = Cache(small)
    blobs = [cache.index.runtimes[0].blob, cache.op("scale").artifacts[0].blob]
    assert {b.sha256 for b in blobs} == {p.name for p in (small / "blobs").iterdir()}
    count = 0
    for blob in blobs:
        for place in flips(small / "blobs" / blob.sha256):
            count += 1
            try:
                data = cache.read(blob)
            except loader.IntegrityError:
                continue
            assert digest(data) == blob.sha256, f"bit {place}"
    assert count == 8 * sum(b.stored for b in blobs) > 5_000


def test_every_bit_of_an_op(small: Path) -> None:
    for _ in flips(small / "ops" / "scale.json"):
        cache = Cache(small)
        with pytest.raises(loader.IntegrityError):
            cache.op("scale")


def test_every_bit_of_a_pinned_index(small: Path) -> None:
    pins = {"small": frozenset({digest((small / "index.json").read_bytes())})}
    assert Cache(small, pins=pins).name == "small"
    for place in flips(small / "index.json"):
        with pytest.raises(loader.CacheError):
            Cache(small, pins=pins)
            raise AssertionError(f"bit {place}")


def test_every_truncation(small: Path) -> None:
    cache = Cache(small)
    pins = {"small": frozenset({cache.digest})}
    blob = cache.op("scale").artifacts[0].blob
    index = cache.index
    for file in sorted(p for p in small.rglob("*") if p.is_file()):
        whole = file.read_bytes()
        for length in range(len(whole)):
            os.truncate(file, len(whole) - 1 - length)
            with pytest.raises(loader.CacheError):
                if file.name == "index.json":
                    Cache(small, pins=pins) if length % 2 else Cache(small)
                    assert length == 0, "a last newline is no loss"
                    raise loader.CacheError("none")
                other = Cache(small)
                other.op("scale")
                other.read(blob)
                other.read(index.runtimes[0].blob)
        file.write_bytes(whole)


CHILD = """
import ctypes, json, os
from precast import loader
from precast.loader.fast_start.installed import Installed
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.resolve.candidate import Request
from precast.loader.session import Session
folder = os.environ["PRECAST_CACHE_PATH"]
path = os.path.join(folder, "index.json")
whole, seen = open(path, "rb").read(), {}
handle = os.open(path, os.O_RDWR)
class NoWheels(Installed):  # reading site-packages for each bit would take a minute
    def entry_points(self, group):
        return ()
class LibraryOpener(KernelOpener):  # without TVM-FFI: the test calls the function of a library itself
    def open(self, cache, op, artifact, device=None):
        return self.libraries.load(cache, artifact)
for place in range(len(whole) * 8):
    os.pwrite(handle, bytes([whole[place // 8] ^ 1 << place % 8]), place // 8)
    session = Session(folder, installed=NoWheels(), opener=LibraryOpener(lambda device: None))
    try:
        opened = session.get(Request(op="scale", config={"dtype": "bf16"}, target="sm_90a"))
        answer = str(ctypes.CDLL(None, handle=opened.handle)["__tvm_ffi_scale"]())
    except loader.PrecastError as error:
        answer = type(error).__name__
    seen[answer] = seen.get(answer, 0) + 1
    os.pwrite(handle, whole[place // 8 : place // 8 + 1], place // 8)
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_every_bit_of_the_index_in_a_child_that_opens(small: Path) -> None:
    """What is opened answers as the library that was asked for, whatever bit is wrong, and the child lives."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "PRECAST_CACHE_PATH": str(small)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert sum(seen.values()) == 8 * (small / "index.json").stat().st_size
    allowed = {"7", "CacheError", "IntegrityError", "OpNotFound", "VariantNotFound", "LoadError", "FormatError"}
    assert set(seen) <= allowed and seen["7"] > 0, seen
