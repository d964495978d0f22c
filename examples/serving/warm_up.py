"""Every kernel of the libraries that the service launches, asked for once: ``serving.yaml`` is built from it.

As a script it makes the calls on tensors that need no memory: ``precast build`` runs it so, without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from serving.shape import LLAMA, Shape
from serving.step import Part, Step


def steps(shape: Shape, device: str) -> Iterator[Step]:
    """A prompt and two single tokens, as the service makes steps of; FlashAttention-4 asks for one kernel where all
    parts are short, and for another where one is long."""
    long = Part(0, 0, range(shape.page + 1))
    yield Step.of([long], shape, device)
    yield Step.of([Part(0, shape.page + 1, [1]), Part(1, 0, [2])], shape, device)


def _nothing(op: str, config: Mapping[str, object]) -> Callable[..., object]:
    """precast's own ops stand in the manifest by their names."""
    return lambda *args: None


def main() -> None:
    import torch

    from serving.kernels import LibraryKernels
    from serving.model import Model, Weights

    weights = Weights.random(LLAMA, "cuda", torch.bfloat16)
    model = Model(LLAMA, LibraryKernels(LLAMA, _nothing), "cuda", weights)
    for step in steps(LLAMA, "cuda"):
        model.step(step)


if __name__ == "__main__":
    main()
