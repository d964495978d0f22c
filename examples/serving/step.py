"""A step: the tokens of several sequences that go through the layers together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from serving.shape import Shape


@dataclass(frozen=True)
class Part:
    """The tokens of one sequence in a step: a prompt, or the token that was generated last."""

    seat: int
    first: int  # the position of the first of them
    tokens: Sequence[int]


@dataclass(frozen=True)
class Step:
    """What the kernels read of a step, on the device, for any number of parts."""

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor  # the place of each token among all pages
    last: torch.Tensor  # the last token of each part
    starts: torch.Tensor  # where each part begins, and the end
    used: torch.Tensor  # the tokens of each sequence, with those of this step
    table: torch.Tensor  # the pages of each sequence
    longest: int  # of the parts

    @classmethod
    def of(cls, parts: Sequence[Part], shape: Shape, device: str) -> Step:
        """All indices in two copies to the device: one of 64 bits each, one of 32."""
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        table: list[int] = []
        last, starts, used = [], [0], []
        for part in parts:
            where = range(part.first, part.first + len(part.tokens))
            tokens += part.tokens
            positions += where
            slots += [part.seat * shape.longest + position for position in where]
            last.append(len(tokens) - 1)
            starts.append(len(tokens))
            used.append(where.stop)
            table += range(part.seat * shape.pages, (part.seat + 1) * shape.pages)
        count, total = len(parts), len(tokens)
        wide = torch.tensor([*tokens, *positions, *slots, *last], dtype=torch.int64, device=device)
        narrow = torch.tensor([*table, *starts, *used], dtype=torch.int32, device=device)
        indices = dict(
            zip(("tokens", "positions", "slots", "last"), wide.split((total, total, total, count)), strict=True)
        )
        pages, begin, length = narrow.split((len(table), count + 1, count))
        longest = max(len(part.tokens) for part in parts)
        return cls(**indices, starts=begin, used=length, table=pages.view(count, shape.pages), longest=longest)
