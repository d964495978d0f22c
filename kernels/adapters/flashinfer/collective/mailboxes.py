"""Mailboxes, as the kernels are verified with them: one of several generations, and in it only the rows that are sent.

A word of a mailbox that has not arrived is a negative zero of bfloat16, which no sender stores: so a reader waits until
there is none, and puts it back. Tensors of mailboxes are of int16 here, since each bit counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.composition.addresses import Multicast, Window
from precast.kernels.authoring.declare import Tolerance
from precast.loader.contract.format.config import Config

GENERATIONS = 3
EMPTY = -(1 << 15)
_NAN = (1 << 15) - 1
_SUM_ERROR = 2.0**-20  # of some products that are added in float32


@dataclass(frozen=True, slots=True)
class Places:
    """Where a generation's rows are: ``slots`` of ``rows`` of ``width`` elements, one slot for each sender.

    >>> Places(slots=8, rows=64, width=7168).skipped(generation=1, slot=2)
    4587520
    """

    slots: int
    rows: int
    width: int

    def skipped(self, generation: int, slot: int = 0) -> int:
        """How many elements lie before a slot."""
        return (generation * self.slots + slot) * self.rows * self.width

    @property
    def shape(self) -> tuple[int]:
        """The whole mailbox, as kernels take it."""
        return (GENERATIONS * self.slots * self.rows * self.width,)


def places_of(config: Config) -> Places:
    """The places in the mailboxes of one sum: a slot for each rank."""
    ranks, rows, hidden = (configs.integer(config, name) for name in ("ranks", "most_rows", "hidden"))
    return Places(ranks, rows, hidden)


def sent(values: Any) -> Any:
    """The bits of numbers as senders store them: without negative zeros.

    >>> import torch
    >>> sent(torch.tensor([-0.0, 1.0])).tolist()
    [0, 16256]
    """
    import torch

    bits = values.to(torch.bfloat16).view(torch.int16)
    return torch.where(bits == EMPTY, 0, bits)


def computed(values: Any) -> Any:
    """The bits of sums as they are sent: the hardware has one NaN.

    >>> import torch
    >>> computed(torch.tensor([-torch.nan, -0.0])).tolist()
    [32767, 0]
    """
    import torch

    return torch.where(values.isnan(), _NAN, sent(values))


def numbers(mailbox: Any) -> Any:
    """The numbers of a mailbox, in float32."""
    import torch

    return mailbox.view(torch.bfloat16).float()


def messages(shape: tuple[int, ...], *, device: Any, seed: int) -> Any:
    """What some ranks sent: bits of random numbers."""
    return sent(tensors.normal(shape, "bfloat16", device=device, seed=seed))


def empty(shape: tuple[int, ...], *, device: Any) -> Any:
    """Mailboxes in which nothing has arrived."""
    import torch

    return torch.full(shape, EMPTY, dtype=torch.int16, device=device)


def slots(places: Places, rows: int, *, device: Any, seed: int) -> Any:
    """The first rows of all slots of a mailbox in which all has arrived, as they lie in it."""
    import torch

    size = (places.slots * places.rows,)
    whole = torch.full((*size, places.width), EMPTY, dtype=torch.int16, device=device)
    held = whole.view(places.slots, places.rows, places.width)[:, :rows]
    held.copy_(messages((places.slots, rows, places.width), device=device, seed=seed))
    return held


def window(mailbox: Any, places: Places, generation: int, slot: int = 0) -> Window:
    """A mailbox as kernels take it, of which some rows from a slot on are there."""
    import torch

    return Window(mailbox.view(torch.bfloat16), places.shape, skipped=places.skipped(generation, slot))


def everyone(mailboxes: Any, places: Places, generation: int, slot: int = 0) -> Multicast:
    """The address of all ranks' mailboxes, of which some rows from a slot on are there."""
    return Multicast(mailboxes, skipped=places.skipped(generation, slot))


def table(mailboxes: Any, places: Places, generation: int, slot: int) -> Any:
    """Where each rank has its mailbox, of which some rows from a slot on are there."""
    import torch

    before = places.skipped(generation, slot) * mailboxes.element_size()
    return torch.tensor([box.data_ptr() - before for box in mailboxes], dtype=torch.int64, device=mailboxes.device)


def stages(sending: int, reading: int, *, count: int = 2, device: Any) -> Any:
    """The generation that the next launch sends in, and the one that is read."""
    import torch

    return torch.tensor([sending, reading, *[0] * (count - 2)], dtype=torch.int32, device=device)


def summed(mailbox: Any, residual: Any | None) -> Any:
    """The sum over ranks in float32 and in their order, with a residual, rounded to bfloat16."""
    import torch

    total = torch.zeros_like(numbers(mailbox[0]))
    for part in mailbox:
        total = total + numbers(part)
    return (total if residual is None else total + residual.float()).to(torch.bfloat16)


def normed(config: Config, rows: Any, weight: Any) -> Any:
    """The norm of rows that are rounded already, in float64."""
    wide = rows.double()
    scale = (wide.square().mean(dim=-1, keepdim=True) + float(config["eps"])).rsqrt()  # type: ignore[arg-type]
    return wide * scale * (weight.double() + float(config.get("weight_bias", 0.0)))  # type: ignore[arg-type]


def tolerance(config: Config) -> Tolerance:
    """Sums and norms in float32, stored in bfloat16; the bits of mailboxes must be equal."""
    return rounding.stored("bfloat16", _SUM_ERROR)


def generation_of(values: Mapping[str, Any], index: int) -> int:
    """The generation that a kernel sends in (0) or reads (1)."""
    return int(values["stage_state"][index])
