"""The measuring process: it reads all properties of device 0 from the CUDA driver.

``precast.build.gpu.measure`` starts it, since that must not start CUDA in its own process.
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
    """Serve requests to measure the device."""
    serve(lambda settings: answer)


def answer(request: Mapping[str, Any]) -> Message:
    """The facts of device 0."""
    try:
        driver = CurrentDriver().get()
    except NoDriver as error:
        return Message({"error": f"there is no usable CUDA device here ({error})"})
    return Message({"facts": facts(driver)})


def facts(driver: Driver) -> dict[str, int | str]:
    """The facts of device 0 by their names in profiles; an older driver does not have all of them."""
    names = (*_OTHERS, *ATTRIBUTES, *(f"{CLUSTERS}{size}" for size in range(1, _CLUSTERS + 1)))
    return {name: value for name in names if (value := fact(driver, 0, name)) is not None}


if __name__ == "__main__":
    main()
