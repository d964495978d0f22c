"""Batches: how many requests, with how many new and earlier tokens, a server's options let run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_EXACT = 16  # up to here kernels for few rows are chosen by the exact number


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server's options allow: requests at once, tokens at once, tokens of a request, and tokens of a page."""

    requests: int
    tokens: int
    length: int
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Requests with ``new`` tokens each after ``context`` earlier ones, while ``decoding`` others add one each."""

    requests: int = 1
    new: int = 1
    context: int = 0
    decoding: int = 0

    @property
    def numbers(self) -> tuple[int, int, int]:
        """How many requests, the most new tokens of one, and the most tokens of one in all."""
        return self.requests + self.decoding, self.new, self.context + self.new

    def within(self, limits: Limits) -> bool:
        """Whether the options allow it; earlier tokens come in whole pages, except those of a decoding step."""
        return (
            self.requests + self.decoding <= limits.requests
            and self.requests * self.new + self.decoding <= limits.tokens
            and 0 < self.context + self.new < limits.length
            and (self.new == 1 or self.context % limits.page == 0)
        )


def steps(most: int) -> list[int]:
    """1 to 16, then powers of two and the numbers after them, up to the largest.

    >>> steps(40)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32, 33, 40]
    """
    powers = [1 << n for n in range(most.bit_length())]
    return sorted({n for n in (*range(1, _EXACT + 1), *powers, *(p + 1 for p in powers), most) if n <= most})


def first_batches(limits: Limits) -> Iterator[Batch]:
    """The batches that a server is tried with: steps of decoding, first tokens, parts of a prompt, and mixed ones."""
    new = min(limits.tokens, limits.length - 1)
    pages = [page * limits.page for page in [0, *_powers(limits.length // limits.page)]]
    batches = [
        *(Batch(requests=n, context=c) for n in steps(limits.requests) for c in (1, limits.length - 2)),
        *(Batch(requests=n, context=c) for n in _powers(limits.requests) for c in pages if c),
        *(Batch(new=q) for q in steps(new)),
        *(Batch(new=q, context=c) for q in _powers(new) for c in (*pages[1:2], *pages[-1:])),
        *(Batch(requests=n, new=q) for n in _powers(limits.requests)[1:] for q in _powers(new)[1:]),
        *(Batch(new=q, decoding=n) for n in _powers(limits.requests) for q in (2, new // 2)),
    ]
    return (batch for batch in dict.fromkeys(batches) if batch.within(limits))


def _powers(most: int) -> list[int]:
    """1, 4, 16 ... and the largest.

    >>> _powers(64), _powers(100)
    ([1, 4, 16, 64], [1, 4, 16, 64, 100])
    """
    return sorted({*(4**n for n in range((most.bit_length() + 1) // 2)), most}) if most else []


def representatives(choose: Callable[[Batch], Any], limits: Limits) -> dict[Any, Batch]:
    """For each answer that a function gives over the batches that the options allow, the first batch with it.

    >>> limits = Limits(requests=1, tokens=4096, length=4096, page=16)
    >>> representatives(lambda batch: batch.new > 64, limits)[True]
    Batch(requests=1, new=65, context=0, decoding=0)
    """
    batches: dict[Any, Batch] = {}
    for batch in every_batch(limits):
        batches.setdefault(choose(batch), batch)
    return batches


def every_batch(limits: Limits) -> Iterator[Batch]:
    """Batches over the whole range. Only one of several requests has more than one new token, so that there is room."""
    requests = sorted({*range(1, min(limits.requests, 132) + 1), *steps(limits.requests)})
    contexts = range(limits.page, limits.length, -(-limits.length // 256 // limits.page) * limits.page)
    for new in steps(min(limits.tokens, limits.length - 1)):
        for context in (0, 1, *contexts, limits.length - 2):
            for n in requests:
                batch = (
                    Batch(requests=n, context=context) if new == 1 else Batch(new=new, context=context, decoding=n - 1)
                )
                if batch.within(limits):
                    yield batch
