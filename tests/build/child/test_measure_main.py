"""What the measuring process asks of a driver, with a driver that knows few attributes."""

from __future__ import annotations

from typing import Any

from precast.build.child.measure_main import facts
from precast.build.gpu.measure import profile_from
from precast.loader.contract.format.target import Capability
from precast.loader.machine.driver import Device

KNOWN = {16: 132, 75: 9, 76: 0, 97: 232448, 120: 1}  # numbers of CUdevice_attribute


class FakeDriver:
    """A driver of an older CUDA than the bindings: it does not know most attributes."""

    version = (12, 4)
    library = None  # it counts no clusters
    devices = (Device(ordinal=0, name="NVIDIA H200", capability=Capability(9, 0)),)

    def memory(self, ordinal: int) -> int:
        return 150 << 30

    def handle(self, ordinal: int) -> int:
        return ordinal

    def attribute(self, ordinal: int, which: int) -> int | None:
        return KNOWN.get(which)


def test_facts_have_the_names_of_profiles_and_leave_out_what_the_driver_lacks() -> None:
    driver: Any = FakeDriver()
    assert facts(driver) == {
        "name": "NVIDIA H200",
        "total_memory": 150 << 30,
        "driver_version": 12040,
        "multiprocessor_count": 132,
        "compute_capability_major": 9,
        "compute_capability_minor": 0,
        "max_shared_memory_per_block_optin": 232448,
        "cluster_launch": 1,
        "max_portable_cluster_size": 8,
    }
    assert profile_from({"facts": facts(driver)}).capability == Capability(9, 0)
