"""The measuring process: it asks the CUDA driver for everything that it says of device 0.

Started by ``precast.build.gpu.measure``, which must not start CUDA in its own process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.build.child.serve import serve
from precast.build.ipc.message import Message
from precast.loader.resolve.driver import CurrentDriver, Driver, NoDriver

_CLUSTERS = 16


def main() -> None:
    """Measure the device when asked."""
    serve(lambda settings: answer)


def answer(request: Mapping[str, Any]) -> Message:
    """The facts of device 0."""
    try:
        found = CurrentDriver().get()
    except NoDriver as error:
        return Message({"error": f"there is no usable CUDA device here ({error})"})
    return Message({"facts": {**facts(found), **clusters(found)}})


def facts(found: Driver) -> dict[str, int | str]:
    """What the driver says of device 0, by the names that profiles have."""
    from cuda.bindings.driver import CUdevice_attribute

    from precast.build.child.fake_gpu import attribute_name

    major, minor = found.version
    made: dict[str, int | str] = {
        "name": found.devices[0].name,
        "total_memory": found.memory(0),
        "driver_version": 1000 * major + 10 * minor,
    }
    for attribute in CUdevice_attribute:
        value = found.attribute(0, int(attribute))
        if value is not None:  # a driver older than the bindings does not know them all
            made[attribute_name(attribute)] = value
    made["max_portable_cluster_size"] = 8 if made.get("cluster_launch") else 1
    return made


def clusters(found: Driver) -> dict[str, int]:
    """How many clusters of each size run at once, as the driver counts them for a block with all shared memory."""
    from cuda.bindings import driver as bindings
    from cutlass.utils import HardwareInfo

    _, context = bindings.cuDevicePrimaryCtxRetain(
        bindings.CUdevice(found.handle(0))
    )  # counting needs a current context
    bindings.cuCtxSetCurrent(context)
    info, counts = HardwareInfo(), {}
    for size in range(1, _CLUSTERS + 1):
        try:
            counts[f"max_active_clusters_{size}"] = int(info.get_max_active_clusters(size))
        except RuntimeError:  # a size that this GPU cannot run
            break
    return counts


if __name__ == "__main__":
    main()
