"""How many clusters of a size a GPU runs at once: for libraries that query the DSL, which is not always installed."""

from __future__ import annotations

from typing import Any

from precast.loader import session
from precast.loader.machine.facts import CLUSTERS
from precast.loader.machine.occupancy import count_clusters


def max_active_clusters(cluster_size: int, device: object = None) -> int:
    """How many clusters of so many blocks run at once on a device, the current one if None.

    Parameters
    ----------
    cluster_size
        Blocks of a cluster.
    device
        ``None``, an int, ``"cuda:1"`` or a ``torch.device``.
    """
    machines = session.default.machines
    ordinal = machines.driver.find(device).ordinal
    count = machines.fact(ordinal, f"{CLUSTERS}{cluster_size}")
    # Where there is no count, this raises the reason.
    return count if isinstance(count, int) else count_clusters(machines.driver.get(), ordinal, cluster_size)


def clusters_of_this_gpu(cluster_size: int = 1, *args: Any, **kwargs: Any) -> int:
    """``max_active_clusters`` of the current device, in place of a library's own function; its other arguments, such as
    a stream, do not matter."""
    return max_active_clusters(cluster_size)
