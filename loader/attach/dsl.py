"""What is answered in place of the DSL where it is installed: ``cute.compile``, and how many clusters a GPU runs.

Some libraries wrap what they compile in a function of their own, which no cache can hold. Such a compile function is
run as it is, up to ``cute.compile``, which then gives the kernel of a cache. The DSL counts clusters with a kernel that
it compiles for this alone; the driver counts them without.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from precast.loader.attach.after_import import after_import
from precast.loader.attach.occupancy import max_active_clusters

_MODULE, _HARDWARE = "cutlass.base_dsl.compiler", "cutlass.utils.hardware_info"
_answers = threading.local()


def install(*, counting: bool) -> None:
    """Have ``cute.compile`` ask for an answer first, as soon as the DSL is imported; with ``counting``, count too."""
    after_import({_MODULE: _change, **({_HARDWARE: _count} if counting else {})})


def _change(module: ModuleType) -> None:
    cls: Any = vars(module)["CompileCallable"]
    original = cls.__call__
    if getattr(original, "_answers", False):
        return

    @functools.wraps(original)
    def compile_or_answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel: Callable[..., Any] | None = getattr(_answers, "kernel", None)
        return original(self, *args, **kwargs) if kernel is None else kernel

    compile_or_answer._answers = True  # type: ignore[attr-defined]
    cls.__call__ = compile_or_answer


def _count(module: ModuleType) -> None:
    cls: Any = vars(module)["HardwareInfo"]
    original = cls.get_max_active_clusters
    if getattr(original, "_counts", False):
        return

    @functools.wraps(original)
    def get_max_active_clusters(self: Any, cluster_size: int, stream: Any = None) -> int:
        if stream is not None or not 0 < cluster_size <= 32:  # a part of the GPU, or the DSL's own error
            return int(original(self, cluster_size, stream))
        return max_active_clusters(cluster_size, self.device_id)

    get_max_active_clusters._counts = True  # type: ignore[attr-defined]
    cls.get_max_active_clusters = get_max_active_clusters


@contextlib.contextmanager
def answered_by(kernel: Callable[..., Any]) -> Iterator[None]:
    """While the block runs, in this thread, ``cute.compile`` gives this kernel."""
    before = getattr(_answers, "kernel", None)
    _answers.kernel = kernel
    try:
        yield
    finally:
        _answers.kernel = before
