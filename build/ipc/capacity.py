"""Capacity: how many workers this machine, or this container, has processors and memory for."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

WORKER = 800 << 20  # bytes; the assumed need of a worker until one has been measured
_UNLIMITED = 1 << 60  # cgroup v1 reports a huge number where there is no limit
_FEWEST = 2 << 30
_SUFFICIENT = 4 << 30  # for any kernel, where there is as much
_MOST = 16 << 30


def default_jobs(root: Path = Path("/")) -> int:
    """As many workers as there are processors and free memory for, and at least one."""
    return max(1, min(processors(root), free_memory(root) // WORKER))


def memory_bound(jobs: int, root: Path = Path("/")) -> int:
    """The number of bytes that one worker may take: its share of the free memory, at most a third of all of it or 16
    GiB, and at least 2 GiB. Kernels take 0.3 to 0.7 GB to compile; endless recursion takes what there is."""
    free = free_memory(root)
    return max(_FEWEST, min(free // max(1, jobs), max(free // 3, _SUFFICIENT), _MOST))


def processors(root: Path = Path("/")) -> int:
    """The processors this process may use: its affinity, and the quotas of its cgroups."""
    shares = [_quota(folder) for folder in _cgroups(root, "cpu")]
    allowed = len(os.sched_getaffinity(0))
    return max(1, min([allowed, *(int(share) for share in shares if share)]))


def free_memory(root: Path = Path("/")) -> int:
    """The free bytes, on the machine and in every cgroup of this process."""
    return max(0, min([_available(root), *(room for f in _cgroups(root, "memory") if (room := _room(f)) is not None)]))


def resident(pid: int) -> int:
    """The memory that a process holds, in bytes; 0 for a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def held_by(pids: Iterable[int], limit: int) -> int:
    """The memory that some processes hold together, in bytes. What they share counts once, if that decides about a
    limit: to find out takes milliseconds for each."""
    sizes = {pid: resident(pid) for pid in pids}
    if sum(sizes.values()) <= limit:
        return sum(sizes.values())
    return sum(_proportional(pid, size) for pid, size in sizes.items())


def _proportional(pid: int, resident_size: int) -> int:
    """The part of a process in the memory that it holds, shared pages divided among those that share them."""
    for line in (_text(Path(f"/proc/{pid}/smaps_rollup")) or "").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return resident_size


class MemoryBudget:
    """Memory shared among workers. Each worker is assumed to need as much as the largest so far.

    >>> budget = MemoryBudget(2 << 30)
    >>> budget.admit(), budget.admit(), budget.admit()
    (True, True, False)
    >>> budget.measured(1500 << 20)  # larger than assumed: this worker must end
    False
    >>> budget.release()
    >>> budget.measured(1500 << 20)  # the last worker always stays
    True
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._live = 0
        self._each = WORKER
        self._lock = threading.Lock()

    def admit(self) -> bool:
        """Whether one more worker may start; if so it counts until ``release``."""
        with self._lock:
            if self._live and not self._fits(self._live + 1):
                return False
            self._live += 1
            return True

    def measured(self, size: int) -> bool:
        """Record the size of a worker. False if there is not enough memory for it beside the others."""
        with self._lock:
            self._each = max(self._each, size)
            return self._live <= 1 or self._fits(self._live)

    def release(self) -> None:
        """A worker has ended."""
        with self._lock:
            self._live -= 1

    def _fits(self, workers: int) -> bool:
        return self._total is None or workers * self._each <= self._total


def _available(root: Path) -> int:
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the cgroups this process is in, innermost first, of either version.

    Inside a container the path in ``/proc/self/cgroup`` may be the host's: then only the mounted root exists.
    """
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if controllers else "")
        folder = top / path.lstrip("/")
        while folder.is_relative_to(top):
            yield folder
            folder = folder.parent


def _room(folder: Path) -> int | None:
    """The memory left in a cgroup. Its file cache can be reclaimed, and counts as free."""
    for limit_name, used_name, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, used = _number(folder / limit_name), _number(folder / used_name)
        if limit is not None and used is not None and limit < _UNLIMITED:
            stat = dict(line.split()[:2] for line in (_text(folder / "memory.stat") or "").splitlines() if " " in line)
            return int(limit - used + int(stat.get(cache, 0)))
    return None


def _quota(folder: Path) -> float | None:
    """The processors that a cgroup may use, at least one."""
    quota, period = [*(_text(folder / "cpu.max") or "").split(), "", ""][:2]
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us") or "", _text(folder / "cpu.cfs_period_us") or ""
    with contextlib.suppress(ValueError, ZeroDivisionError):
        share = int(quota) / int(period)
        return max(1.0, share) if share > 0 else None
    return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.strip().isdigit() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
