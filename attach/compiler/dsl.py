"""Calls of the DSL that are answered from a cache where it is installed: ``cute.compile``, and the count of clusters.

Some libraries wrap what they compile in a function of their own, which no cache can hold. Such a compile function is
run as it is, up to ``cute.compile``, which then gives the kernels in their order. The DSL counts clusters by a kernel
that it compiles only for this; the driver counts them without one.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from precast.attach.compiler.occupancy import max_active_clusters
from precast.loader.contract.import_hook import after_import
from precast.loader.errors import PrecastError

_MODULE, _HARDWARE = "cutlass.base_dsl.compiler", "cutlass.utils.hardware_info"
_answers = threading.local()


Observe = Callable[[tuple[Any, ...], Mapping[str, Any]], None]
"""Called for each compilation that no seam tracks, with the arguments of ``cute.compile``."""


def install(observe: Observe | None = None) -> None:
    """Have ``cute.compile`` look for an answer first, as soon as the DSL is imported.

    A recording observes what is compiled; the DSL still counts clusters there, as it does without precast.
    """
    after_import({_MODULE: functools.partial(_change, observe=observe)})
    if observe is None:
        after_import({_HARDWARE: _count})


def _change(module: ModuleType, observe: Observe | None) -> None:
    cls: Any = vars(module)["CompileCallable"]
    original = cls.__call__
    if getattr(original, "_answers", False):
        return

    @functools.wraps(original)
    def compile_or_answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        answers: Answers | None = getattr(_answers, "current", None)
        if answers is not None:
            return answers.next()
        if observe is None or getattr(_answers, "tracked", 0) > 0:
            return original(self, *args, **kwargs)
        observe(args, kwargs)
        with tracked_compile():  # nested compilations are part of it
            return original(self, *args, **kwargs)

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
def tracked_compile() -> Iterator[None]:
    """While the block runs, in this thread, a seam tracks what is compiled."""
    begin_tracked_compile()
    try:
        yield
    finally:
        end_tracked_compile()


def begin_tracked_compile() -> None:
    """From here on, in this thread, a seam tracks what is compiled."""
    depth: int = getattr(_answers, "tracked", 0)
    _answers.tracked = depth + 1


def end_tracked_compile() -> None:
    """The end of what ``begin_tracked_compile`` began."""
    _answers.tracked -= 1


class Answers:
    """Kernels that ``cute.compile`` gives, one after another."""

    def __init__(self, kernels: Iterable[Callable[..., Any]]) -> None:
        self._kernels = iter(kernels)
        self._taken = 0

    def next(self) -> Callable[..., Any]:
        """The next kernel."""
        self._taken += 1
        try:
            return next(self._kernels)
        except StopIteration:
            raise PrecastError(
                "the library's function compiles more kernels here than when the cache was built: rebuild the cache"
            ) from None

    def assert_exhausted(self) -> None:
        """Raise where some kernels were taken and some were not: those taken may be the wrong ones.

        Where none was taken, all that the function needs came through other seams, which have their own keys.
        """
        if self._taken and next(self._kernels, None) is not None:
            raise PrecastError(
                "the library's function compiles fewer kernels here than when the cache was built: rebuild the cache"
            )


def answering() -> bool:
    """Whether ``cute.compile`` is being answered in this thread."""
    return getattr(_answers, "current", None) is not None


@contextlib.contextmanager
def answered_by(answers: Answers) -> Iterator[None]:
    """While the block runs, in this thread, ``cute.compile`` gives these kernels."""
    before = getattr(_answers, "current", None)
    _answers.current = answers
    try:
        yield
    finally:
        _answers.current = before
