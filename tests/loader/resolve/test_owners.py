"""A cache that another user owns, in processes that are really run by other users: with a pin and without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.loader.contract.format.index import digest
from precast.loader.errors import CacheError, IntegrityError
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, demo, gives_away

OWNER = 4711
as_root = pytest.mark.skipif(
    not gives_away(), reason="only root gives files away and becomes other users: run as root, outside of namespaces"
)

# Everything is imported by a first get, as root: the interpreter may lie where no other user may read it.
SERVE = """
import os, sys
from precast import loader
from precast.loader import session

def serve(path):
    os.environ["PRECAST_CACHE_PATH"] = path
    session.use(session.Session())
    return loader.get("scale", {"dtype": "bf16"}, target="sm_90a")

own, owned, uid = sys.argv[1:]
pin = os.environ.pop("PRECAST_PIN", "")
serve(own)
try:
    loader.get("nothing", {})
except loader.OpNotFound:
    pass
os.environ["PRECAST_PIN"] = pin
os.setgroups([])
os.setresgid(int(uid), int(uid), int(uid))
os.setresuid(int(uid), int(uid), int(uid))
try:
    print("served", serve(owned).artifact.config["dtype"])
except loader.PrecastError as error:
    print(type(error).__name__, error, [str(found) for found in loader.caches()])
"""


@pytest.fixture
def owned(native: Native) -> Iterator[Path]:
    """A cache that OWNER owns, every file of it, in a folder that any user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = demo(native).write(Path(folder, "demo"))
        for part in (path, *path.rglob("*")):
            os.chown(part, OWNER, OWNER)
            part.chmod(0o755 if part.is_dir() else 0o644)
        yield path


def serve(own: Path, owned: Path, uid: int, pin: str) -> str:
    """What a process of this user says when it asks the cache for a kernel."""
    environment = {**os.environ, "PRECAST_PIN": pin, "PYTHONWARNINGS": "error"}
    environment.pop("PRECAST_ALLOW_UNSAFE_CACHES", None)
    command = [sys.executable, "-c", SERVE, str(own), str(owned), str(uid)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@as_root
@pytest.mark.parametrize("uid", [OWNER, 4712, 1000650000, 0])
def test_a_pinned_cache_serves_every_user(path: Path, owned: Path, uid: int) -> None:
    assert serve(path, owned, uid, f"demo={Cache(path).digest}") == "served bfloat16\n"


@as_root
@pytest.mark.parametrize("uid", [4712, 0])
def test_without_a_pin_it_serves_its_owner_alone(path: Path, owned: Path, uid: int) -> None:
    assert serve(path, owned, OWNER, "") == "served bfloat16\n"
    said = serve(path, owned, uid, "")
    assert f"belongs to another user (uid {OWNER})" in said and "pin it with PRECAST_PIN" in said


@as_root
def test_a_pin_of_another_index_lets_nothing_in(path: Path, owned: Path) -> None:
    assert "not the one that is pinned" in serve(path, owned, 4712, f"demo={'0' * 64}")
    assert "no pin names the cache 'demo'" in serve(path, owned, 4712, f"other={Cache(path).digest}")


@as_root
def test_the_owner_of_a_pinned_cache_changes_nothing_unnoticed(owned: Path) -> None:
    index = (owned / "index.json").read_bytes()
    pins = {"demo": frozenset({digest(index)})}
    cache = Cache(owned, pins=pins)
    blob = cache.index.runtimes[0].blob
    assert blob is not None
    stored = owned / "blobs" / blob.sha256
    stored.write_bytes(bytes([stored.read_bytes()[0] ^ 1]) + stored.read_bytes()[1:])
    with pytest.raises(IntegrityError, match="damaged"):
        cache.read(blob)
    listed = owned / "ops" / "scale.json"
    listed.write_bytes(listed.read_bytes().replace(b"sm_90a", b"sm_90b"))
    with pytest.raises(IntegrityError, match="its digest"):
        cache.op("scale")
    (owned / "index.json").write_bytes(index + b" ")
    with pytest.raises(IntegrityError, match="not the one that is pinned"):
        Cache(owned, pins=pins)


def test_a_pin_does_not_excuse_what_everyone_may_write(path: Path) -> None:
    pins = {"demo": frozenset({Cache(path).digest})}
    (path / "ops").chmod(0o777)
    with pytest.raises(CacheError, match=r"ops can be written by everyone.*: change that, or set"):
        Cache(path, pins=pins).op("scale")
