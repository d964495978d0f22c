"""The measuring process: it asks the CUDA driver for everything that it says of device 0.

Started by ``precast.build.gpu.measure``, which must not start CUDA in its own process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.build.child.serve import serve
from precast.build.ipc.message import Message
from precast.loader.machine.driver import CurrentDriver, Driver, NoDriver
from precast.loader.machine.facts import ATTRIBUTES, CLUSTERS, fact

_CLUSTERS = 16
_OTHERS = ("name", "total_memory", "driver_version", "max_portable_cluster_size")


def main() -> None:
    """Measure the device when asked."""
    serve(lambda settings: answer)


def answer(request: Mapping[str, Any]) -> Message:
    """The facts of device 0."""
    try:
        driver = CurrentDriver().get()
    except NoDriver as error:
        return Message({"error": f"there is no usable CUDA device here ({error})"})
    return Message({"facts": facts(driver)})


def facts(driver: Driver) -> dict[str, int | str]:
    """What the driver says of device 0, by the names that profiles have; an older driver does not know them all."""
    names = (*_OTHERS, *ATTRIBUTES, *(f"{CLUSTERS}{size}" for size in range(1, _CLUSTERS + 1)))
    return {name: value for name in names if (value := fact(driver, 0, name)) is not None}


if __name__ == "__main__":
    main()
