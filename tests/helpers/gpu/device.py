"""Whether this machine has a CUDA device, as the loader's own reader of the driver says."""

from __future__ import annotations

from functools import cache


@cache
def no_device() -> str:
    """Why nothing can be launched here; empty where a device is."""
    from precast.loader.machine.driver import CurrentDriver, NoDriver  # the emulator is tested without the loader

    try:
        CurrentDriver().get()
    except NoDriver as reason:
        return f"no CUDA device: {reason}"
    return ""
