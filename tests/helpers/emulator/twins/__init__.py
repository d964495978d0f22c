"""Right kernels and wrong twins, by what they synchronise or read: all of them are in ``KERNELS``."""

from tests.helpers.emulator.twins import (
    barriers,
    clusters,
    grids,
    limits,
    locks,
    mbarriers,
    memory_order,
    plain,
    proxies,
    read_only,
    skipped,
    unwritten,
)

_FAMILIES = (
    barriers, clusters, grids, limits, locks, mbarriers, memory_order, plain, proxies, read_only, skipped, unwritten,
)  # fmt: skip
KERNELS = {f"{f.__name__.split('.')[-1]}: {name}": kernel for f in _FAMILIES for name, kernel in f.KERNELS.items()}
