"""FlashInfer: functions that compile and return a kernel, most of them under ``functools.cache``."""

from __future__ import annotations

from precast.loader.attach.hooks import CompileFunctions
from precast.loader.attach.library import Library

LIBRARY = Library(
    name="flashinfer",
    distribution="flashinfer-python",
    package="flashinfer",
    seams=(CompileFunctions("flashinfer", without=("flashinfer.experimental", "flashinfer.data")),),
)
