"""What two of CUTLASS's operators for Blackwell get wrong, corrected in the object that is about to be compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


def correct(implementation: Any) -> None:
    """Correct an operator's implementation if it is one of these; an instance is changed, and its class is not."""
    name = type(implementation).__name__
    if name == "TgvGemmKernel":
        implementation.mma_warp = _waits_for_epilogue(implementation.mma_warp)
    elif name == "PersistentDenseGemmPreferredClusterKernel":
        implementation._compute_preferred_cluster_grid = _launches_a_cluster(
            implementation._compute_preferred_cluster_grid
        )


def _launches_a_cluster(compute: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """With clusters of two sizes and a static scheduler, the number of clusters is rounded down: a product smaller than
    one is an empty grid, which CUDA refuses. Blocks beyond the product store nothing, so that one cluster is right."""
    import cutlass

    def at_least_one(*passed: Any) -> tuple[Any, ...]:
        parameters, (m, n, clusters), *rest = compute(*passed)
        return parameters, (m, n, cutlass.max(clusters, 1)), *rest

    return at_least_one


def _waits_for_epilogue(mma_warp: Callable[..., None]) -> Callable[..., None]:
    """The warp that multiplies frees tensor memory when a barrier is in its second phase, but nothing made it wait for
    the first: where the epilogue's warps are late, it frees what they have yet to read. So it waits for them once,
    behind its allocation; they come there while the first tiles are copied."""
    from cutlass.cute import arch

    def waits(*passed: Any) -> None:
        barrier = passed[3]
        original = arch.relinquish_tmem_alloc_permit

        def relinquish(*args: Any, **named: Any) -> None:
            original(*args, **named)
            arch.mbarrier_wait(barrier, 0)

        with _replaced(arch, "relinquish_tmem_alloc_permit", relinquish):
            mma_warp(*passed)

    return waits


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)
