"""The service of ``examples/serving`` where no GPU is: ``python double.py --port N``, and the other options of it.

Its layers are torch's, small, on the CPU; but each norm goes through a kernel that the loader takes from the cache of
``PRECAST_CACHE_PATH``, a small one of tests. What that kernel multiplies with is told by another entry of it, so that
the answers show which cache the kernels are from, and any mixture of two.

``DOUBLE`` in the environment makes it a service that is wrong: ``changes`` answers something else after a while,
``drops`` ends at SIGTERM at once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[3]))

from serving import __main__ as program
from serving.model import Model, Weights
from serving.shape import SMALL
from serving.start import KINDS, preload
from serving.torch_kernels import TorchKernels

from precast import loader
from precast.loader import session
from precast.loader.machine.machine import Machines
from tests.helpers.echo import HOPPER

_WRONG = os.environ.get("DOUBLE", "")
_CALLS = itertools.count()


class CachedKernels(TorchKernels):
    """Norms through a kernel of a cache."""

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        found = super().norm(x, weight)
        kernel: Callable[..., int] = loader.get("scale", {"dtype": "float32"})
        out = torch.empty(found.numel())
        kernel(found.flatten(), out, 1.0 + kernel(0) / 64)
        if _WRONG == "changes" and next(_CALLS) > 4000:
            out += 1.0
        return out.view(found.shape)


def small() -> Model:
    torch.set_num_threads(1)
    return Model(SMALL, CachedKernels(SMALL), "cpu", Weights.random(SMALL, "cpu", torch.float32))


def main() -> int:
    session.use(session.Session(machines=Machines(HOPPER)))
    vars(program)["KINDS"] = {"cache": replace(KINDS["cache"], imports=lambda: None, preload=preload, model=small)}
    if _WRONG == "drops":
        asyncio.SelectorEventLoop.add_signal_handler = _end_at_once  # type: ignore[assignment]
    return program.main()


def _end_at_once(loop: object, number: signal.Signals, handler: object) -> None:
    signal.signal(number, lambda *args: os._exit(0))


if __name__ == "__main__":
    sys.exit(main())
