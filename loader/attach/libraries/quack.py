"""quack: one decorator memoises every compile function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.loader.attach.hooks import Decorator
from precast.loader.attach.library import Library


def max_active_clusters(cluster_size: int = 1, *args: Any, **kwargs: Any) -> int:
    """How many clusters of a size the current GPU runs at once, as the driver counts them; quack asks the DSL."""
    from precast.loader.attach.occupancy import max_active_clusters

    return max_active_clusters(cluster_size)


def process_local(forms: Mapping[str, Any]) -> str | None:
    """quack refers to an epilogue or a transform that no module holds by a digest that other processes cannot resolve.

    >>> process_local({"gemm_cls_ref": ["$namedtuple:quack.gemm_runtime.identity:GemmClassRef", "epi_mod_local"]})
    'its epilogue has no name in a module, so that no other process can build it: give it one'
    """
    for name, what in (("gemm_cls_ref", "epilogue"), ("transform_a_ref", "transform")):
        form = forms.get(name)
        if isinstance(form, list) and any(isinstance(item, str) and item.endswith("_local") for item in form):
            return f"its {what} has no name in a module, so that no other process can build it: give it one"
    return None


LIBRARY = Library(
    name="quack",
    distribution="quack-kernels",
    package="quack",
    seams=(Decorator("quack.cache.jit", "jit_cache"),),
    environment={"QUACK_CACHE_ENABLED": "0"},  # its disk cache: keys without an architecture, files that need the DSL
    refuses=process_local,
    answers={"quack.cute_dsl_utils:get_max_active_clusters": max_active_clusters},
)
