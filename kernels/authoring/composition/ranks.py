"""Ranks: what an author states about an op that several GPUs launch together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.loader.contract.format.config import Config

Exchanged = Callable[[Config, int, Sequence[Mapping[str, Any]]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How many ranks launch an op together, and what each of them is passed that depends on the others.

    ``inputs`` of their declaration makes what one rank has of its own, once for each rank; ``reference`` gets
    a list for each argument, with a value for each rank, and returns such lists.

    >>> def exchanged(config: Config, rank: int, owned: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ...     return {"rank": rank, "peers": addresses(owned, "x")}
    >>> Ranks(count=lambda config: config["world"], exchanged=exchanged).count({"world": 2})
    2

    Parameters
    ----------
    count
        The number of ranks of a config.
    exchanged
        The arguments of a rank beside its own, from what all ranks own: tables of addresses, its number.
    """

    count: Callable[[Config], int]
    exchanged: Exchanged


def addresses(owned: Sequence[Mapping[str, Any]], name: str) -> Any:
    """A table of where each rank has one of its tensors, on their device, as int64.

    >>> import torch
    >>> x = torch.zeros(3)
    >>> addresses([{"x": x}, {"x": x}], "x").tolist() == [x.data_ptr()] * 2
    True
    """
    import torch

    tensors = [arguments[name] for arguments in owned]
    return torch.tensor([t.data_ptr() for t in tensors], dtype=torch.int64, device=tensors[0].device)
