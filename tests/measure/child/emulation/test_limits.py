"""The limits of the emulator are those that the builder has for GPUs."""

from __future__ import annotations

import pytest

from precast.build.gpu.gpu_table import TABLE


def test_the_builder_has_the_same_limits() -> None:
    """The table is written twice, since the emulator does not know the builder."""
    limits = pytest.importorskip("precast.emulator.limits")
    for (major, minor), facts in TABLE.items():
        number = 10 * major + minor
        assert facts["max_shared_memory_per_block_optin"].value == limits._SHARED[number] * 1024
        assert facts["max_shared_memory_per_multiprocessor"].value == (limits._SHARED[number] + 1) * 1024
        names = ("max_threads_per_multiprocessor", "max_blocks_per_multiprocessor")
        assert tuple(facts[name].value for name in names) == limits._RESIDENT.get(number, limits._MOST_RESIDENT)
