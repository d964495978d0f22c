"""Not found: the errors of requests that no artifact serves."""

from __future__ import annotations

from typing import NoReturn

from precast.loader.contract.format.config import suggest
from precast.loader.errors import NoCudaDevice, OpNotFound, VariantNotFound
from precast.loader.resolve.discover import VARIABLE, DiscoveredCache
from precast.loader.resolve.resolution import Resolution, render

_SHOWN = 300  # lines of an error's message; its resolution holds every candidate


def refuse(resolution: Resolution) -> NoReturn:
    """Raise the error of a resolution that accepted nothing."""
    machine = resolution.machine
    if machine.capability is None:
        raise NoCudaDevice(
            f"{resolution.request.op}: there is no CUDA device: {machine.absent}. Run this where there is one, or give"
            " target='sm_90a' or the like to resolve for an architecture"
        )
    raise VariantNotFound(f"no variant fits\n{render(resolution, _SHOWN)}", resolution)


def unknown_op(op: str, caches: tuple[DiscoveredCache, ...]) -> OpNotFound:
    """The error of an op that no cache holds."""
    names = {name for discovered in caches if discovered.index for name in discovered.index.ops}
    looked = "".join(f"\n  {discovered}" for discovered in caches) or "\n  none"
    return OpNotFound(
        f"no cache holds op {op!r}{suggest(op, names)}\ncaches looked at:{looked}\n"
        f"Install the cache wheel that has the op, or name its directory in {VARIABLE}"
    )
