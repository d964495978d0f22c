"""Numbers of GPUs that libraries take from the DSL while they are imported, for where it is not installed."""

from __future__ import annotations

from precast.attach.compiler.placeholder import NoCompiler
from precast.attach.recordings.provenance import DSL_DISTRIBUTION

WARP_SIZE = 32
_RESERVED = 1  # KiB of a block, for the system
# KiB of a multiprocessor's shared memory that its blocks can have, by compute capability (CUDA programming guide).
_SHARED = {
    "80": 164, "86": 100, "87": 164, "89": 100, "90": 228, "100": 228, "101": 228, "103": 228, "107": 328, "110": 228,
    "120": 100, "121": 100,
}  # fmt: skip


def shared_memory_of(architecture: str | None = None) -> int:
    """Stands in for the DSL's function: the bytes of shared memory that one block can have.

    >>> shared_memory_of("sm_100"), shared_memory_of("sm_120a")
    (232448, 101376)
    """
    name = (architecture or "").removeprefix("sm_").rstrip("af")
    if name not in _SHARED:
        raise NoCompiler(
            f"the shared memory of {architecture or 'this GPU'} needs the DSL: pip install {DSL_DISTRIBUTION}"
        )
    return (_SHARED[name] - _RESERVED) * 1024
