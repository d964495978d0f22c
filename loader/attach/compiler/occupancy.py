"""How many clusters of a size a GPU runs at once, for libraries that ask the DSL for it: it is not always installed."""

from __future__ import annotations

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
    found = machines.fact(ordinal, f"{CLUSTERS}{cluster_size}")
    # Where there is no answer, asking again says why.
    return found if isinstance(found, int) else count_clusters(machines.driver.get(), ordinal, cluster_size)
