"""Whether the service's kernels compute the model: ``python -m serving.check``, on a GPU, beside torch in float32.

A prompt, further prompts and single tokens go through the layers in steps, as the engine makes them. Exit status 1: the
kernels are farther from float32 than torch's own bfloat16 allows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

from serving.model import Model, Weights
from serving.shape import LLAMA, Shape
from serving.start import KINDS
from serving.step import Part, Step
from serving.torch_kernels import TorchKernels


def steps(shape: Shape, device: str) -> Iterator[Step]:
    """Prompts of several lengths, then one token of each."""
    generator = torch.Generator().manual_seed(1)
    lengths = (1, 31, 33, shape.page, shape.page + 5, 300)
    prompts = [torch.randint(0, shape.vocabulary, (length,), generator=generator).tolist() for length in lengths]
    yield Step.of([Part(seat, 0, prompt) for seat, prompt in enumerate(prompts)], shape, device)
    yield Step.of([Part(seat, len(prompt), [7 + seat]) for seat, prompt in enumerate(prompts)], shape, device)
    yield Step.of([Part(0, 2, [5]), Part(9, 0, prompts[3]), Part(4, lengths[4] + 1, [6])], shape, device)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative error of all values together."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def main(kind: str = "cache") -> int:
    """Print an error for each step."""
    KINDS[kind].imports()
    ours = KINDS[kind].model()
    weights = Weights.random(LLAMA, "cuda", torch.bfloat16)
    plain = Model(LLAMA, TorchKernels(LLAMA), "cuda", weights)
    wide = Model(LLAMA, TorchKernels(LLAMA), "cuda", weights.to(torch.float32))
    right = True
    for step in steps(LLAMA, "cuda"):
        expected = wide.hidden(step)
        mine, torchs = error(ours.hidden(step), expected), error(plain.hidden(step), expected)
        fits = mine <= 1.25 * torchs + 1e-3
        right &= fits
        wrong = "" if fits else "  WRONG"
        print(f"{len(step.tokens):4} tokens  error {mine:.2e}, of torch's bfloat16 {torchs:.2e}{wrong}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
