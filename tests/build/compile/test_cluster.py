"""A real Dask cluster on loopback: a scheduler and workers, each a process of its own; a user's own modules."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.builds import tree, write_package
from tests.helpers.cluster.dask_cluster import DaskCluster
from tests.helpers.forks.forked_process import run

pytestmark = pytest.mark.usefixtures("without_torch")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        made = DaskCluster(folder)
        stack.callback(made.end)
        yield made


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "precast.cli.main", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def build(*words: object) -> subprocess.CompletedProcess[str]:
    return run(("build", *words))


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_a_retry(cluster: DaskCluster, tmp_path: Path) -> None:
    """The build completes, and is the local one byte for byte; a variant that fails is reported as in a local build."""
    manifest = write_package(tmp_path, "1, 2, 3, 4")
    victim, _ = cluster.worker("one"), cluster.worker("two")
    running = start(
        "build", manifest, "-o", tmp_path / "far", "--store", tmp_path / "s1",
        "--executor", "dask", "--scheduler", cluster.address,
    )  # fmt: skip
    assert running.stderr is not None
    seen: list[str] = []
    for line in running.stderr:
        seen.append(line)
        if line.startswith("[2/4]"):
            victim.send_signal(signal.SIGKILL)
    said, _ = running.communicate(timeout=120)
    assert victim.wait() == -signal.SIGKILL
    assert running.returncode == 1, "one variant fails by itself, and only that one"
    assert "3 variants built, 0 reused, 1 failed" in said
    told = "".join(seen)
    assert "far.add(value=3) for sm_90a: ValueError: three is not for adding" in told
    local = build(manifest, "-o", tmp_path / "near", "--store", tmp_path / "s2", "-j", 1)
    assert "3 variants built, 0 reused, 1 failed" in local.stdout
    assert tree(tmp_path / "far") == tree(tmp_path / "near")


@pytest.mark.slow
def test_a_cluster_that_is_not_alike_is_refused(cluster: DaskCluster, tmp_path: Path) -> None:
    """A worker that has another version of the DSL is named before anything is sent."""
    other = tmp_path / "other"
    (other / "nvidia_cutlass_dsl-4.9.0.dist-info").mkdir(parents=True)
    (other / "nvidia_cutlass_dsl-4.9.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nvidia-cutlass-dsl\nVersion: 4.9.0\n"
    )
    cluster.worker("odd", PYTHONPATH=str(other))
    manifest = write_package(tmp_path, "1, 2")
    refused = build(
        manifest, "-o", tmp_path / "c", "--store", tmp_path / "s", "--executor", "dask", "--scheduler", cluster.address
    )
    assert refused.returncode == 1
    assert "nvidia-cutlass-dsl is 4.8.1 here and 4.9.0 there" in refused.stderr
    assert re.search(r"tcp://127\.0\.0\.1:\d+: nvidia", refused.stderr), "it says which worker"
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_no_cluster_there(tmp_path: Path) -> None:
    manifest = write_package(tmp_path, "1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        for address in ("nonsense:1", closed):
            words = [manifest, "-o", tmp_path / "c", "--store", tmp_path / "s", "--executor", "dask"]
            none = build(*words, "--scheduler", address)
            assert none.returncode == 1
            assert f"error: no Dask scheduler at {address!r}" in none.stderr
            assert "Traceback" not in none.stderr
    assert build(manifest, "-o", tmp_path / "c", "--executor", "dask").returncode == 2
