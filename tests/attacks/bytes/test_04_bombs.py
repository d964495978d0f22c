"""A few bytes that decode to gigabytes, and files that are larger than the index says.

A frame states how much it decodes to; that must be what the index says, and zstd holds the frame to it. No file is
read beyond its stated size.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests.helpers.attacks import Refused, edit
from tests.helpers.caches import CacheWriter, Native, artifact


@pytest.mark.parametrize("declared", [True, False])
def test_a_frame(native: Native, tmp_path: Path, refused: Refused, declared: bool) -> None:
    packer = zstandard.ZstdCompressor(write_content_size=declared)
    stream = packer.compressobj(size=1 << 30) if declared else packer.compressobj()
    stored = b"".join(stream.compress(bytes(1 << 24)) for _ in range(64)) + stream.flush()
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    blob = writer.keep(bytes(4000))
    writer.blobs[blob.sha256] = stored
    writer.op("scale", [artifact(blob, {"dtype": "bfloat16", "layout": "row", "threads": 1})])
    path = writer.write(tmp_path / "cache")
    data = (path / "ops" / "scale.json").read_text().replace(f'"stored": {blob.stored}', f'"stored": {len(stored)}')
    (path / "ops" / "scale.json").write_text(data)
    from precast.loader.contract.format.index import digest

    edit(path / "index.json", lambda i: i["ops"]["scale"].update(sha256=digest(data.encode()), size=len(data)))
    edit(path / "index.json", lambda i: i["runtimes"][0]["blob"].update(**_blob(blob, len(stored))))
    refused(path, "does not decode to the size")


def _blob(blob: object, stored: int) -> dict[str, object]:
    return {"sha256": blob.sha256, "size": blob.size, "stored": stored, "encoding": "zstd"}  # type: ignore[attr-defined]


def test_a_large_index(path: Path, refused: Refused) -> None:
    with (path / "index.json").open("ab") as file:
        file.truncate(1 << 33)  # a hole: 8 GiB that no disk has
    refused(path, "should have at most")


READ = """
import sys
from precast.loader.resolve.cache import Cache
from precast.loader.errors import PrecastError
try:
    Cache(sys.argv[1])
except PrecastError as error:
    print(type(error).__name__)
"""


def test_a_large_index_takes_little_memory(path: Path) -> None:
    with (path / "index.json").open("ab") as file:
        file.truncate(1 << 33)
    done = subprocess.run(
        [sys.executable, "-c", READ, path],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20)),
    )
    assert done.returncode == 0 and done.stdout.strip() == "IntegrityError", done.stderr
