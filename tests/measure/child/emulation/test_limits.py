"""The limits of the emulator are those that the builder has for GPUs."""

from __future__ import annotations

from precast.build.gpu.gpu_table import TABLE
from precast.emulator.limits import _MOST_RESIDENT, _RESIDENT, _SHARED


def test_the_builder_has_the_same_limits() -> None:
    """The table is written twice, since the emulator does not know the builder."""
    for (major, minor), facts in TABLE.items():
        number = 10 * major + minor
        assert facts["max_shared_memory_per_block_optin"].value == _SHARED[number] * 1024
        assert facts["max_shared_memory_per_multiprocessor"].value == (_SHARED[number] + 1) * 1024
        names = ("max_threads_per_multiprocessor", "max_blocks_per_multiprocessor")
        assert tuple(facts[name].value for name in names) == _RESIDENT.get(number, _MOST_RESIDENT)
