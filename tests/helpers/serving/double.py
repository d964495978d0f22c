"""The service of ``examples/serving`` where no GPU is: ``python double.py --port N``, and the other options of it.

Its layers are torch's, small, on the CPU; but each norm goes through a kernel that the loader takes from the cache of
``PRECAST_CACHE_PATH``, a small one of tests. What that kernel multiplies with is told by another entry of it, so that
the answers show which cache the kernels are from, and any mixture of two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[3]))

from serving import __main__ as program
from serving import start
from serving.model import Model, Weights
from serving.shape import SMALL
from serving.start import KINDS, preload
from serving.torch_kernels import TorchKernels

from precast import loader
from precast.loader import session
from precast.loader.machine.machine import Machines
from tests.helpers.echo import HOPPER


class CachedKernels(TorchKernels):
    """Norms through a kernel of a cache."""

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        found = super().norm(x, weight)
        kernel: Callable[..., int] = loader.get("scale", {"dtype": "float32"})
        out = torch.empty(found.numel())
        kernel(found.flatten(), out, 1.0 + kernel(0) / 64)
        return out.view(found.shape)


def small() -> Model:
    torch.set_num_threads(1)
    return Model(SMALL, CachedKernels(SMALL), "cpu", Weights.random(SMALL, "cpu", torch.float32))


def main() -> int:
    session.use(session.Session(machines=Machines(HOPPER)))
    vars(start)["KINDS"] = {"cache": replace(KINDS["cache"], imports=lambda: None, preload=preload, model=small)}
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
