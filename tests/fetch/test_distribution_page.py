"""The page on distribution, as a reader would follow it: a registry on this machine takes the place of the page's."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from precast.loader.resolve.cache import Cache
from precast.publish.push.push import push_cache
from tests.helpers.caches import Native, demo, gives_away
from tests.helpers.packed_caches import tree
from tests.helpers.pages import blocks
from tests.helpers.web.many import QUICK

PAGE = "docs/distribution.md"
HOST = "registry.example.com"
DIGEST = "288f4e0f..."
as_root = pytest.mark.skipif(
    not gives_away(), reason="only root becomes other users: run as root, outside of namespaces"
)

# What the container's entry point is imported as root: the interpreter may lie where no other user may read it.
AS_USER = """
import os, sys
uid, *argv = sys.argv[1:]
from precast import loader
from precast.loader import session
from precast.fetch import __main__ as command
import concurrent.futures.thread, difflib, encodings.idna, http.client, socket, ssl, zstandard
if os.environ.get("WARM"):  # everything that a first get needs
    path, os.environ["PRECAST_CACHE_PATH"] = os.environ["PRECAST_CACHE_PATH"], os.environ["WARM"]
    pin = os.environ.pop("PRECAST_PIN")
    loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    os.environ.update(PRECAST_CACHE_PATH=path, PRECAST_PIN=pin)
    session.use(session.Session())
os.setgroups([])
os.setresgid(int(uid), int(uid), int(uid))
os.setresuid(int(uid), int(uid), int(uid))
os.chdir("/")
if argv:
    sys.exit(command.main(argv))
try:
    print("served", loader.get("scale", {"dtype": "bf16"}, target="sm_90a").artifact.config["dtype"])
except loader.PrecastError as error:
    print(type(error).__name__, error, [str(found) for found in loader.caches()])
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    native = Native(tmp_path_factory.mktemp("native"))
    return demo(native, name="llama").write(tmp_path_factory.mktemp("built") / "cache")


def test_the_two_commands(upstream: str, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").symlink_to(cache)
    lines = blocks(PAGE, "sh")[0]
    printed = ""
    for line in lines.replace(HOST, upstream).splitlines():
        words = shlex.split(line)
        start = ["-m", "precast.cli.main", *words[1:]] if words[0] == "precast" else words[1:]
        done = subprocess.run([sys.executable, *start], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert tree(tmp_path / "kernels" / "llama") == tree(cache)
    pin = f"PRECAST_PIN=llama={Cache(cache).digest}"
    assert printed.count(pin) == 2, printed
    assert f"oci://{upstream}/kernels/llama:v3@sha256:" in printed


def as_user(uid: int, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error", "HOME": "/nonexistent", **variables}
    environment.pop("PRECAST_ALLOW_UNSAFE_CACHES", None)
    command = [sys.executable, "-c", AS_USER, str(uid), *argv]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@as_root
def test_an_init_container_fetches_and_another_user_loads(upstream: str, cache: Path) -> None:
    """The pod of the page: its commands, its users and its variables, with a folder as everyone's emptyDir."""
    pushed = push_cache(cache, f"oci://{upstream}/kernels/llama:v3", patience=QUICK)
    with tempfile.TemporaryDirectory() as volume:
        os.chmod(volume, 0o777)
        pod, _ = (
            yaml.safe_load(text.replace(HOST, upstream).replace(DIGEST, pushed.digest)) for text in blocks(PAGE, "yaml")
        )
        (first,), (second,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert first["command"] == ["python", "-m", "precast.loader.fetch"]
        words = [mounted(word, volume) for word in first["args"]]
        for expected in ("fetched, 0 B reused", "already up to date"):  # a restart fetches nothing
            done = as_user(first["securityContext"]["runAsUser"], *words)
            assert done.returncode == 0, done.stderr
            assert expected in done.stdout
        assert Path(volume, "llama").stat().st_uid == 4711
        variables = {one["name"]: mounted(one["value"], volume) for one in second["env"]}
        uid = second["securityContext"]["runAsUser"]
        assert uid != 4711
        done = as_user(uid, WARM=str(cache), **variables)
        assert done.stdout == "served bfloat16\n", done.stdout + done.stderr
        other = {**variables, "PRECAST_PIN": "llama=" + "0" * 64}
        assert "not the one that is pinned" in as_user(uid, WARM=str(cache), **other).stdout


def mounted(word: str, volume: str) -> str:
    """A path in the pod, where the test has its volume."""
    return word.replace("/kernels/llama", f"{volume}/llama") if word.startswith("/kernels/") else word


def test_the_volume_of_an_image_names_the_image() -> None:
    pod, volumes = (yaml.safe_load(text) for text in blocks(PAGE, "yaml"))
    (volume,) = volumes["volumes"]
    (pushed, _) = next(iter(blocks(PAGE, "sh"))).splitlines()
    reference: Any = volume["image"]["reference"]
    assert pushed.endswith(f"oci://{reference}")
    assert pod["spec"]["initContainers"][0]["args"][0] == f"oci://{reference}"
