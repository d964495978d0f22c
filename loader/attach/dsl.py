"""The DSL's ``cute.compile``, answered in place of being run: by a kernel of a cache, or by nothing.

Some libraries wrap what they compile in a function of their own, which no cache can hold. Where the DSL is installed
such a compile function is run as it is, up to ``cute.compile``, which then gives the kernel.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from precast.loader.attach.after_import import after_import

_MODULE = "cutlass.base_dsl.compiler"
_answers = threading.local()


def install() -> None:
    """Have ``cute.compile`` ask for an answer first, as soon as the DSL is imported."""
    after_import({_MODULE: _change})


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


@contextlib.contextmanager
def answered_by(kernel: Callable[..., Any]) -> Iterator[None]:
    """While the block runs, in this thread, ``cute.compile`` gives this kernel."""
    before = getattr(_answers, "kernel", None)
    _answers.kernel = kernel
    try:
        yield
    finally:
        _answers.kernel = before
