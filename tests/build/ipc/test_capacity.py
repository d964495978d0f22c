"""How many workers: from files as Linux has them, for machines and containers of both kinds of cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast.build.ipc.capacity import (
    WORKER,
    MemoryBudget,
    default_jobs,
    free_memory,
    held_by,
    memory_bound,
    processors,
    resident,
)

GIB = 1 << 30


def machine(root: Path, files: dict[str, str], *, free: int = 64 * GIB) -> Path:
    for name, text in {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {free // 1024} kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(autouse=True)
def _processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


def test_a_bare_machine(tmp_path: Path) -> None:
    root = machine(tmp_path, {})
    assert processors(root) == 16
    assert free_memory(root) == 64 * GIB
    assert default_jobs(root) == 16
    assert memory_bound(16, root) == 4 * GIB
    assert memory_bound(1, root) == 16 * GIB, "no kernel needs all of a large machine"


def test_little_memory_means_few_workers(tmp_path: Path) -> None:
    assert default_jobs(machine(tmp_path, {}, free=3 * WORKER + 5)) == 3
    assert default_jobs(machine(tmp_path, {}, free=1000)) == 1
    assert memory_bound(4, tmp_path) == 2 * GIB


def test_a_single_worker_takes_a_part_of_the_memory(tmp_path: Path) -> None:
    bounds = {free: memory_bound(1, machine(tmp_path, {}, free=free * GIB)) // GIB for free in (3, 8, 24, 600)}
    assert bounds == {3: 3, 8: 4, 24: 8, 600: 16}


FORKING = """
import os, sys, time
data = bytearray(os.urandom(64 << 20))
children = [pid for _ in range(4) if (pid := os.fork())]
if len(children) == 4:
    print(*children, flush=True)
sys.stdin.read()
"""


def test_what_processes_share_counts_once() -> None:
    """Where that decides: it takes longer to find out."""
    with subprocess.Popen([sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [parent.pid, *map(int, parent.stdout.readline().split())]
        one = resident(parent.pid)
        assert held_by(pids, 1 << 40) > 3 * one
        assert held_by(pids, 1) < 2 * one
    assert held_by([parent.pid], 1) == 0, "it has ended"


def test_a_container_with_cgroups_of_version_2(tmp_path: Path) -> None:
    """The limit of a folder above counts; file cache that can be taken back is free."""
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/box/memory.max": "max\n",
            "sys/fs/cgroup/pod/box/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/pod/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/pod/memory.current": f"{5 * GIB}\n",
            "sys/fs/cgroup/pod/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            "sys/fs/cgroup/pod/box/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/pod/cpu.max": "max 100000\n",
        },
    )
    assert free_memory(root) == 4 * GIB
    assert processors(root) == 2


def test_a_container_with_cgroups_of_version_1(tmp_path: Path) -> None:
    """Its own folder may exist on the host only; the mounted root then holds the limit."""
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 1024\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert free_memory(root) == GIB + 1024
    assert processors(root) == 1


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/\n4:cpu:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert (free_memory(root), processors(root)) == (64 * GIB, 16)


def test_workers_that_turn_out_large_leave_until_the_rest_fit() -> None:
    budget = MemoryBudget(4 * GIB)
    assert [budget.admit() for _ in range(6)] == [True] * 5 + [False]
    assert not budget.measured(GIB)
    budget.release()
    assert budget.measured(GIB)
    assert not budget.admit()


def test_who_names_a_number_of_workers_gets_it() -> None:
    budget = MemoryBudget(None)
    assert all(budget.admit() for _ in range(100))
    assert budget.measured(100 * GIB)
