"""The runtime library is not there, is another's, or has another content under a known name.

Without its own runtime a library would bind to whatever the process has. It is never opened then.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from precast import loader
from precast.loader.resolve.cache import Cache
from tests.helpers.attacks import Refused, edit
from tests.helpers.caches import Native, demo


def test_none_in_the_index(path: Path, refused: Refused) -> None:
    edit(path / "index.json", lambda index: index.update(runtimes=[]))
    refused(path, "its cache has no runtime library for its host")


def test_its_blob_is_gone(path: Path, refused: Refused) -> None:
    (path / "blobs" / Cache(path).index.runtimes[0].blob.sha256).unlink()
    assert isinstance(refused(path, "is missing"), loader.IntegrityError)


@pytest.fixture
def mixed(native: Native, tmp_path: Path) -> Path:
    """A library is linked against one runtime, and the cache brings another: the linker does not find its own."""
    writer = demo(native, name="mixed", factor=5)
    writer.runtimes.clear()
    writer.runtime(*native.runtime(7))
    return writer.write(tmp_path / "mixed")


def test_another_library_as_runtime(mixed: Path) -> None:
    code = "from precast import loader\nloader.get('scale', {'dtype': 'bf16'}, target='sm_90a')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PRECAST_CACHE_PATH": str(mixed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "LoadError: the dynamic linker refused precast:scale-" in done.stderr
    assert "libprecast-rt-0000000000000005.so" in done.stderr
