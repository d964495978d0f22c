"""The processes of a build by their kind, as the system lists them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from precast.build.ipc.process_tree import descendants, has_ended

BUILDER, WORKER, MODULE, VARIANT = "builder", "worker", "module's process", "variant's process"
DESCRIBER, TOOL = "describer", "linker"
_TOOLS = {"gcc", "cc1", "as", "collect2", "ld", "ld.bfd", "cuobjdump"}


def running(builder: int, kind: str) -> list[int]:
    """The processes of this kind that a build has at this moment."""
    if kind == BUILDER:
        return [] if has_ended(builder) else [builder]
    return [pid for pid in descendants(builder) if kind_of(pid, builder) == kind]


def kind_of(pid: int, builder: int) -> str:
    """The kind of a descendant of a build; empty for one of no kind, or that has ended."""
    words = _words(pid)
    if not words or _fact(pid, "State").startswith("Z"):
        return ""
    if Path(words[0]).name.rpartition("-")[2] in _TOOLS:
        return TOOL
    if "precast.build.child.describer_main" in words:
        return DESCRIBER
    if "precast.build.child.worker_main" not in words:
        return ""
    parent = _parent(pid)
    if parent == builder:
        return WORKER
    return MODULE if _parent(parent) == builder else VARIANT


def _words(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    return []


def _parent(pid: int) -> int:
    return int(_fact(pid, "PPid") or 0)


def _fact(pid: int, name: str) -> str:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    return ""
