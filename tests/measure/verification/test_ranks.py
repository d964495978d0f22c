"""The variants of ranks that have kernels of their own, and must run at once."""

from types import SimpleNamespace
from typing import Any

import pytest

from precast.measure.verification.emulations import artifacts_of_ranks


def artifact(rank: int, hidden: int = 64, target: str = "sm_100a") -> Any:
    """An artifact with a config."""
    return SimpleNamespace(target=target, kind="object", config={"rank": rank, "ranks": 2, "hidden": hidden})


def test_the_ranks_of_a_variant_differ_in_nothing_else() -> None:
    """In the order of their numbers; none where the op has no such key."""
    first, second = artifact(0), artifact(1)
    others = [artifact(1, hidden=128), artifact(1, target="sm_103a")]
    assert artifacts_of_ranks([second, *others, first], second, "rank") == [first, second]
    assert artifacts_of_ranks([second, first], second, "") == []


def test_each_rank_launches_its_own_kernel() -> None:
    """Two of the same name are told apart by the rank."""
    emulator = pytest.importorskip("precast.emulator")
    from precast.measure.child.emulation.ranks_code import RanksCode, of_rank

    def host(grid: int) -> Any:
        launch = emulator.Launch(kernel="sum", grid=(grid, 1, 1), block=(32, 1, 1))
        return SimpleNamespace(launches=lambda values: [launch])

    code = RanksCode([host(1), host(2)])
    launches = [of_rank(code, rank).launches(())[0] for rank in range(2)]
    assert [(launch.kernel, launch.grid[0]) for launch in launches] == [("sum_of_rank_0", 1), ("sum_of_rank_1", 2)]
    alone = host(3)
    assert of_rank(alone, 1) is alone
