"""A program as if there were a GPU: its tensors have no memory, and its operators run as far as they can."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from precast.kernels.adapters.scripts.meta_tensors import own_operators, without_memory


@contextlib.contextmanager
def without_gpu(*, failed: Callable[[str, Exception], None] | None = None) -> Iterator[None]:
    """While the block runs, tensors have no memory; small ones that are made from values keep these.

    With ``failed``, as for an engine, a program continues where a value is read that nothing gave, which is zero then,
    and after an operator that fails, which is reported to it.
    """
    from precast.build.child.stand_in.tensor_values import TensorValues

    with without_memory(), TensorValues(zeros=failed is not None), own_operators(failed):
        yield
